"""Hot loops: arrays in, arrays out; serial, compiled once per installation, without the GIL."""
