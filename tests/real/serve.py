"""Serve a GGUF file by llama.cpp's server until the process is killed: `python serve.py FILE CONTEXT_TOKENS`."""

from __future__ import annotations

import sys
import threading

import xllamacpp


def serve(file: str, context_tokens: int) -> None:
    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.verbosity, params.warmup = file, 0, 0, False
    params.n_parallel, params.n_ctx = 1, context_tokens
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(f"running on {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
