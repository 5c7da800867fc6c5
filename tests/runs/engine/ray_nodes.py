"""A Ray cluster of two nodes on loopback, in a process of its own: says where it is, and lasts until its input ends."""

from __future__ import annotations

import json
import sys
from importlib import import_module


def main() -> None:
    cluster = import_module("ray.cluster_utils").Cluster()
    own = {"node_ip_address": "127.0.0.1", "num_cpus": 1, "include_log_monitor": False}
    nodes = [cluster.add_node(include_dashboard=False, no_monitor=True, **own), cluster.add_node(**own)]
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
