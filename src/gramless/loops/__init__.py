"""Hot loops: arrays in, arrays out; serial, compiled once per installation, GIL released."""
