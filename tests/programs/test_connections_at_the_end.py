"""An agent that goes on connecting while its event loop ends leaves no connection open."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import warnings

import pytest

from whichloop.programs.gateway import gateway_here

CLIENTS = 3
FOR_S = 0.05


def connect_again_and_again(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:  # the server has gone
            return


async def beside_clients() -> list[threading.Thread]:
    port = int((await gateway_here())._server.url.rpartition(":")[2])
    clients = [threading.Thread(target=connect_again_and_again, args=(port,)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    await asyncio.sleep(FOR_S)
    return clients


@pytest.mark.parametrize("runs", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_every_connection_is_closed_once_the_event_loop_has_ended(runs: int) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(runs):
            for client in asyncio.run(beside_clients()):
                client.join()
        gc.collect()
    assert [str(each.message) for each in warned if "unclosed" in str(each.message)] == []
