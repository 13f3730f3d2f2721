"""Untrusted code.

Tries to use the network and the files of the host, starts processes and fills the disk. Prints
the result of each attempt. The arguments are the path of a file and the number of a port on the
host.
"""

import os
import socket
import sys
import time

host_file, host_port = sys.argv[1], int(sys.argv[2])


def attempt(what, act):
    try:
        print(f"{what}: {act()}")
    except OSError as error:
        print(f"{what}: {error.strerror or error}")


def connect(*address):
    with socket.create_connection(address, timeout=3):
        return "REACHED"


def plant():
    os.makedirs(os.path.dirname(host_file), exist_ok=True)
    with open(host_file, "w") as file:
        return f"{file.write('changed by code that is not trusted')} bytes written"


def fork(count):
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            os.closerange(0, 3)
            time.sleep(1000)
            os._exit(0)
    return f"{count} processes started"


def fill(mebibytes):
    with open("/workspace/filler", "wb") as file:
        for _ in range(mebibytes):
            file.write(b"\xff" * 2**20)
    return f"{mebibytes} MiB written"


attempt("connect to the Internet", lambda: connect("1.1.1.1", 443))
attempt("look up a name", lambda: socket.getaddrinfo("example.com", 443) and "REACHED")
attempt("connect to the cloud's metadata", lambda: connect("169.254.169.254", 80))
attempt("connect to the host as an emulator shows it", lambda: connect("10.0.2.2", host_port))
attempt("connect to the host's loopback", lambda: connect("127.0.0.1", host_port))
attempt("read a file of the host", lambda: open(host_file).read())
attempt("write a file of the host", plant)
attempt("list the processes", lambda: f"{sum(name.isdigit() for name in os.listdir('/proc'))} seen")
attempt("fork", lambda: fork(100))
attempt("fill the disk", lambda: fill(32))
with open("/workspace/loot.txt", "w") as loot:
    loot.write(open("/etc/hostname").read())
print("\x1b]0;your terminal is mine\x07done")
