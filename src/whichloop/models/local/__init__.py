"""Models in this process: weights from an installed package or a GGUF file, which llama.cpp serves on the loopback address."""
