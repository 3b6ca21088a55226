"""The board at the side of a channel and the marks in its stream, in a real browser, for scripts/browser.

What is taken on, asked and held up appears on an open page and goes again, without asking for the page anew; what one takes on is a claim
that counts down; who was knocked and why a loop was stopped stands at the message, live and after a reload; the side folds away.
"""

import json
import os
import subprocess
import threading

from browser_hub import ask, wait
from browser_live import press

SESSION = {"jsonrpc": "2.0", "id": "1", "method": "initialize", "params": {
    "protocolVersion": "2026-06-02", "clientInfo": {"name": "walk", "version": "1"},
    "capabilities": {"delivery": {"ack": True}, "injection": {"immediate": True, "buffered": True, "notify": True}}}}


class Knocked:
    """An agent with a session that knows knocks: it takes what comes, and does nothing about it."""

    def __init__(self, binary, url, key):
        environment = {n: v for n, v in os.environ.items() if not n.startswith("CHORUS_")}
        self.process = subprocess.Popen([binary, "c2a-stdio", "--url", url, "--key", key], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.begun = threading.Event()
        threading.Thread(target=self.listen, daemon=True).start()
        self.tell(SESSION)
        assert self.begun.wait(30), "no session"

    def tell(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def listen(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" not in message:
                self.begun.set()
            elif message.get("id") is not None:
                self.tell({"jsonrpc": "2.0", "id": message["id"], "result": {"status": "accepted"}})


class Room:
    """A channel of the person's with agents in it."""

    def __init__(self, url, token):
        self.url, self.person = url, {"authorization": f"Bearer {token}"}
        status, made = ask(f"{url}/api/v1/channels", "POST", {"name": "board-walk", "handle": "anna"}, self.person)
        assert status == 201, made
        self.path, self.api = f"/c/{made['id']}", f"{url}/api/v1/channels/{made['id']}"

    def agent(self, name, roles=()):
        status, made = ask(f"{self.url}/api/v1/agents", "POST", {"name": name}, self.person)
        assert status == 201, made
        assert ask(f"{self.api}/members", "POST", {"agent": name, "roles": list(roles)}, self.person)[0] == 201
        return made["api_key"]

    def say(self, content, key=None):
        who = {"authorization": f"Bearer {key}"} if key else self.person
        status, said = ask(f"{self.api}/messages", "POST", {"content": content}, who)
        assert status == 201, said
        return said["event_id"]

    def signal(self, event, signal, key):
        status, said = ask(f"{self.api}/messages/{event}/reactions", "POST", {"signal": signal}, {"authorization": f"Bearer {key}"})
        assert status < 300, said


def board_is_live(browser, room, cedar):
    browser.go(f"{room.url}{room.path}?side=board")
    wait("the stream", lambda: browser.text("#live") == "Live")
    browser.see("Nothing is open.", "#board")
    event = room.say("@cedar is the migration through?")
    browser.see("cedar must answer", "#board")
    wait("one is open", lambda: browser.text("[data-board] span") == "1")
    wait("how long there is", lambda: ":" in browser.text("#board [data-group=awaited] .countdown"))
    room.signal(event, "working", cedar)
    browser.see("cedar holds this", "#board")
    browser.see("cedar holds this", f"#{event}")
    browser.run("document.querySelector('[data-group=held]').open = false")
    room.signal(event, "blocked", cedar)
    browser.see("cedar cannot go on", "#board")
    browser.see("1 blocked", "#blocked")
    assert browser.run("return document.querySelector('[data-group=held]').open") is False, "what was folded opened by itself"
    browser.shot("board")
    browser.look("desktop", "dark")
    browser.shot("board-dark")
    browser.look("desktop", "light")
    room.say("It was the gateway", cedar)
    wait("nobody is blocked", lambda: not browser.run("return document.querySelector('#blocked').checkVisibility()"))
    return event


def marks(browser, room, cedar, birch):
    """A knock shows without its text, and a loop with its reason: as it happens, and when one comes back."""
    asked = room.say("@oncall is the lag on db-2 known?")
    browser.see("Knocked birch", f"#{asked}")
    browser.see("No text was shown", f"#{asked}")
    last = None
    for n, words in enumerate(("red", "blue", "green", "grey", "brown", "white", "black", "pink", "gold")):
        key, other = (cedar, "aspen") if n % 2 == 0 else (birch, "cedar")
        last = room.say(f"@{other} is the {words} one finished by now?", key)
    browser.see("Stopped after 8 turns", f"#{last}")
    browser.go(f"{room.url}{room.path}")
    browser.see("Knocked birch", f"#{asked}")
    browser.see("Say something, and they can go on", f"#{last}")
    browser.shot("marks")
    browser.look("phone", "dark")
    browser.shot("marks-phone-dark")
    browser.look("desktop", "light")
    return asked


def taking_on(browser, room, asked):
    """What a person takes on is hers, with a countdown, until she gives it back or answers."""
    browser.go(f"{room.url}{room.path}")
    wait("the stream", lambda: browser.text("#live") == "Live")
    browser.run("document.activeElement.blur(); document.getElementById(arguments[0]).scrollIntoView()", asked)
    browser.press(f"#{asked} button[data-act=claim]")
    browser.see("anna holds this", f"#{asked}")
    wait("a countdown", lambda: ":" in browser.text(f"#{asked} .countdown"))
    browser.shot("taken-on")
    browser.press(f"#{asked} button[data-act=claim]")
    wait("given back", lambda: "holds this" not in browser.text(f"#{asked}"))
    browser.press(f"#{asked} button[data-act=claim]")
    browser.see("anna holds this", f"#{asked}")
    assert ask(f"{room.api}/messages", "POST", {"content": "It is, since nine", "thread": asked}, room.person)[0] == 201
    wait("answered", lambda: "holds this" not in browser.text(f"#{asked}"))


def folding(browser, room):
    browser.go(f"{room.url}{room.path}")
    shown = lambda: browser.run("return document.querySelector('#side').checkVisibility()")
    wait("the side", shown)
    browser.click(".side-toggle")
    wait("it is folded", lambda: not shown())
    browser.go(f"{room.url}{room.path}?side=board")
    browser.has("#items")
    assert not shown(), "it does not stay folded"
    browser.run("document.activeElement.blur()")
    press(browser, "k")
    press(browser, "w")
    browser.see("Who got this, and why", "#side")
    press(browser, "\ue00c")
    browser.click(".side-toggle")
    wait("it is back", shown)
    browser.look("phone", "light")
    browser.go(f"{room.url}{room.path}?side=board")
    browser.has("#items")
    assert not shown(), "the board lies on the stream of a phone"
    browser.click(".side-toggle")
    wait("a sheet", shown)
    browser.shot("board-phone")
    browser.look("desktop", "light")


def walk(browser, url, token, binary):
    room = Room(url, token)
    cedar, aspen, birch = room.agent("cedar"), room.agent("aspen"), room.agent("birch", ["oncall"])
    session = Knocked(binary, url, birch)
    try:
        event = board_is_live(browser, room, cedar)
        # With a person's task, two agents could say more to each other.
        room.signal(event, "done", cedar)
        asked = marks(browser, room, cedar, aspen)
        taking_on(browser, room, asked)
        folding(browser, room)
    finally:
        session.process.kill()
        session.process.wait()
    return {"board": f"{room.path}?side=board"}
