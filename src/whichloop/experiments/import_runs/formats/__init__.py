"""The formats of other tools: one file each, which defines FORMAT. A new file here is a new format; nothing lists them."""
