"""A hub of its own with a channel and an agent in it, and the official Python client: for scripts that put both to work."""

import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

PYTHON_CLIENT = "2.3.0"
OPERATOR = "co_00000000000000000000000000000000"


def python():
    """A Python that has the official client; installed under target/ the first time."""
    venv = Path(__file__).resolve().parents[2] / "target" / "mcp-clients" / f"python-{PYTHON_CLIENT}"
    if not (venv / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", f"mcp=={PYTHON_CLIENT}"], check=True)
        (venv / "installed").touch()
    return venv / "bin" / "python"


class Stage:
    """Runs until the `with` block ends."""

    def __init__(self, binary, folder):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CHORUS_")}
        environment |= {"CHORUS_RATE_LIMIT": "off", "CHORUS_OPERATOR_KEY": OPERATOR, "CHORUS_LOG": "warn"}
        self.process = subprocess.Popen(
            [os.path.abspath(binary), "serve", "--listen", "127.0.0.1:0"],
            cwd=folder, env=environment, stdout=subprocess.PIPE, text=True,
        )

    def __enter__(self):
        self.url = self.process.stdout.readline().rsplit(" ", 1)[1].strip()
        self.person = self.call("/api/v1/accounts", OPERATOR, email="anna@example.org")["api_token"]
        self.channel = self.call("/api/v1/channels", self.person, name="ops", handle="anna")["id"]
        self.key = self.call("/api/v1/agents", self.person, name="ben")["api_key"]
        self.call(f"/api/v1/channels/{self.channel}/members", self.person, agent="ben", handle="ben")
        self.mcp = f"{self.url}/mcp/{self.channel}"
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=30)

    def call(self, path, key, **body):
        """A POST of the body; without one a GET."""
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode() if body else None,
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)


class Proxy:
    """Adds the agent's key to each request, for software that cannot be told to send one."""

    def __init__(self, stage):
        self.upstream = ("127.0.0.1", int(stage.url.rsplit(":", 1)[1]))
        self.header = f"Authorization: Bearer {stage.key}\r\nConnection: close\r\n".encode()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/mcp/{stage.channel}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        """One request a connection: the answer says so, and the client opens another for the next."""
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return client.close()
            head += piece
        first, rest = head.split(b"\r\n", 1)
        lines, body = rest.split(b"\r\n\r\n", 1)
        lines = [line for line in lines.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        hub = socket.create_connection(self.upstream)
        hub.sendall(first + b"\r\n" + self.header + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body)
        threading.Thread(target=self.copy, args=(client, hub), daemon=True).start()
        self.copy(hub, client)

    @staticmethod
    def copy(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
