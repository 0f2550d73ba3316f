#!/usr/bin/env python3
"""Start-up time and resident memory.

  memory.py startup WORK BINARY ROOT        Corefile.example: first answer, memory after 100,000 queries
  memory.py large WORK BINARY COREFILE PORT a large cluster: memory at rest, and the peak while all is read again
"""
import os
import re
import socket
import statistics
import subprocess
import sys
import time

WEB = b"\x03web\x04shop\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01"


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        text = file.read()
    return {name: int(re.search(rf"{name}:\s+(\d+)", text).group(1)) / 1024 for name in ("VmRSS", "VmHWM", "RssAnon")}


def first_answer(port, question):
    """Asks until there is an answer."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect(("127.0.0.1", port))
    client.settimeout(0.002)
    message = bytes.fromhex("123401000001000000000000") + question
    while True:
        try:
            client.send(message)
            return client.recv(4096)
        except OSError:
            time.sleep(0.0005)


def startup(work, binary, root):
    with open(f"{root}/Corefile.example") as file:
        text = file.read()
    for old, new in ((".:1053", ".:5353"), (":8080", ":7080"), (":8181", ":7181"), (":9153", ":7153")):
        text = text.replace(old, new)
    with open(f"{work}/example.Corefile", "w") as file:
        file.write(text)
    times = []
    for last in (False, False, False, False, True):
        begin = time.monotonic()
        server = subprocess.Popen([binary, "-conf", f"{work}/example.Corefile"], cwd=root, stdout=subprocess.DEVNULL)
        first_answer(5353, WEB)
        times.append((time.monotonic() - begin) * 1000)
        if not last:
            server.kill()
            server.wait()
    print(f"first answer after {statistics.median(times):.1f} ms (median of {len(times)}, at most {max(times):.1f})")
    with open(f"{work}/example.txt", "w") as file:
        names = ("web.shop", "cart.shop", "kubernetes.default", "postgres.data")
        file.writelines(f"{name}.svc.cluster.local A\n" for name in names)
    subprocess.run([f"{work}/dnsblast-bin", "-d", f"{work}/example.txt", "-p", "5353", "-n", "100000", "-l", "60"],
                   stdout=subprocess.DEVNULL, check=True)
    print("after 100,000 queries:", " ".join(f"{name} {value:.1f} MiB" for name, value in status(server.pid).items()))
    server.kill()


def large(work, binary, corefile, port):
    port = int(port)
    server = subprocess.Popen([binary, "-conf", corefile], stdout=subprocess.PIPE, text=True)
    for line in server.stdout:
        if "objects read from manifests" in line:
            print(line.strip())
            break
    time.sleep(1)
    print("at rest:", " ".join(f"{name} {value:.1f} MiB" for name, value in status(server.pid).items()))
    for round_number in range(1, 6):
        with open(f"/proc/{server.pid}/clear_refs", "w") as file:
            file.write("5")
        for name in sorted(os.listdir(f"{work}/large")):
            path = f"{work}/large/{name}"
            with open(path) as file:
                text = file.read()
            with open(path + ".new", "w") as file:
                file.write(re.sub(r"port: 80\d*\}", f"port: 80{round_number}}}", text))
            os.rename(path + ".new", path)
        wait_for_port(port, 800 + round_number)
        print(f"read again, {round_number}:", " ".join(f"{n} {v:.1f} MiB" for n, v in status(server.pid).items()))
    server.kill()


def wait_for_port(port, wanted):
    """Asks until the last Service of the last file has its new port."""
    labels = (b"_http", b"_tcp", b"svc-09999", b"ns-0099", b"svc", b"cluster", b"local")
    question = b"".join(bytes([len(label)]) + label for label in labels) + b"\x00\x00\x21\x00\x01"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        reply = first_answer(port, question)
        behind = 12 + len(question)
        if len(reply) > behind + 2 and wanted.to_bytes(2, "big") in reply[behind:]:
            return
        time.sleep(0.1)
    raise SystemExit(f"the change to port {wanted} was not served within two minutes")


def main():
    {"startup": startup, "large": large}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
