"""Tables to numbers: rows checked, columns encoded, missing numbers filled, units of inputs."""
