"""A conversation as it goes on, in a real browser, for scripts/browser: what must hold while others write, react and work.

A turn ends on the page when it ended, however slow the network; what is being written stays; who reads the end stays there; days are the
reader's; a page that nobody sees holds no connection; what cannot be undone asks first.
"""

import threading
import time

from browser_hub import entries, wait


def slowly(browser, ms):
    browser.cdp("Network.enable")
    browser.cdp("Network.emulateNetworkConditions", offline=False, latency=ms, downloadThroughput=-1, uploadThroughput=-1)


def press(browser, key):
    browser.call("POST", f"{browser.session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": [
        {"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})


def turns(browser):
    return browser.run("return [...document.querySelectorAll('#items .tools')].map(t => t.dataset.running !== undefined)")


class Worker:
    """An agent whose turns this test makes, step by step."""

    def __init__(self, url, ask, token, place):
        self.ask, self.url, self.api, self.chats = ask, url, f"{url}/api/v1/channels/{place}", []
        self.person = {"authorization": f"Bearer {token}"}
        status, made = ask(f"{url}/api/v1/agents", "POST", {"name": "slate"}, self.person)
        assert status == 201, made
        self.secret = made["api_key"]
        self.key = {"authorization": f"Bearer {self.secret}"}
        assert ask(f"{self.api}/members", "POST", {"agent": "slate"}, self.person)[0] == 201
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for kind, data in entries(self.url, self.secret):
            if kind == "chat":
                self.chats.append(data)

    def say(self, content):
        status, said = self.ask(f"{self.api}/messages", "POST", {"content": content}, self.key)
        assert status == 201, said

    def wake(self):
        status, said = self.ask(f"{self.api}/messages", "POST", {"content": "@slate please look at it"}, self.person)
        assert status == 201, said
        wait("the agent is woken", lambda: self.chats)

    def does(self, kind, **more):
        status, said = self.ask(self.chats[-1]["callback"], "POST", {"type": kind, **more})
        assert status < 300, said


def a_turn_ends(browser, url, path, worker):
    """Steps that come faster than the page can ask for them: one line, and it is over when the agent has spoken."""
    browser.go(f"{url}{path}")
    browser.has("#live:not([hidden])")
    wait("the stream", lambda: browser.text("#live") == "Live")
    worker.wake()
    browser.see("please look at it", "#items")
    before = len(turns(browser))
    slowly(browser, 250)
    try:
        worker.does("status", status="Reading, and this is a long story that no line of a page has room for, however wide it is, so that it must be cut")
        time.sleep(0.15)
        worker.does("tool_call", name="a.read", id="1", args={})
        time.sleep(0.15)
        worker.does("tool_result", id="1", content="ok")
        wait("a line that runs", lambda: any(turns(browser)))
        wait("how many work", lambda: "1 working" in browser.text("#working"))
        browser.see("Reading", "#side .who-group")
        wait("where one works", lambda: browser.run("return document.querySelector('#rail .timer .elapsed')?.textContent"))
        time_at = "const t = document.querySelector('.tools[data-running] .took'); return t.getBoundingClientRect().right <= document.querySelector('#stream').getBoundingClientRect().right"
        assert browser.run(time_at), "how long it works is beyond the edge"
        browser.shot("live-working")
        worker.does("message", content="It is done")
        browser.see("It is done", "#items")
        wait("the end of the turn", lambda: not any(turns(browser)))
        assert len(turns(browser)) == before + 1, turns(browser)
        wait("nobody works", lambda: "working" not in browser.text("#working"))
    finally:
        slowly(browser, 0)
    end = "const s = document.querySelector('#stream'); return s.scrollHeight - s.scrollTop - s.clientHeight"
    wait("the end of the stream", lambda: browser.run(end) < 5)


def what_is_written_stays(browser, url, path, worker):
    browser.go(f"{url}{path}")
    mine = worker.ask(f"{worker.api}/messages", "POST", {"content": "one to change"}, worker.person)[1]["event_id"]
    browser.has(f"#{mine}")
    browser.press(f"#{mine} button[data-act=edit]")
    browser.run("document.querySelector('article form textarea').value = 'half a thought'")
    assert worker.ask(f"{worker.api}/messages/{mine}/reactions", "POST", {"signal": "agree"}, worker.key)[0] < 300
    browser.has(f"#{mine}[data-stale]")
    assert browser.run("return document.querySelector('article form textarea').value") == "half a thought"
    browser.run("document.querySelector('article form textarea').dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))")
    browser.see("agree · slate", f"#{mine}")
    # What would be taken back asks, and forgets that it asked.
    browser.press(f"#{mine} button[data-act=delete]")
    said = "return document.querySelector(arguments[0]).textContent.trim()"
    assert browser.run(said, f"#{mine} button[data-act=delete]") == "Take back?"
    wait("it forgot", lambda: browser.run(said, f"#{mine} button[data-act=delete]") == "Take back")
    return mine


def keys(browser, mine):
    browser.run("document.activeElement.blur()")
    press(browser, "k")
    press(browser, "e")
    browser.has(".reactions-menu")
    menu = "const m = document.querySelector('.reactions-menu').getBoundingClientRect(), s = document.querySelector('#stream').getBoundingClientRect(); return m.bottom <= s.bottom + 1 && m.top >= s.top"
    assert browser.run(menu), "the menu is cut"
    press(browser, "\ue014")
    assert browser.run("return document.activeElement.dataset.react") == "agree"
    press(browser, "\ue00c")
    assert browser.run("return document.activeElement.classList.contains('item')"), "focus is nowhere"
    press(browser, "c")
    browser.see("anna holds this", f"#{mine}")
    press(browser, "c")
    wait("given back", lambda: "holds this" not in browser.text(f"#{mine}"))
    press(browser, "w")
    browser.see("Who got this, and why", "#side")
    press(browser, "\ue00c")
    browser.see("Add an agent or a person", "#side")


def days(browser, url, path):
    """The line of a day says the day of the messages below it, wherever one reads."""
    script = """const day = (at) => new Date(at).toLocaleDateString(undefined, { weekday: 'long', day: 'numeric', month: 'long' });
        return [...document.querySelectorAll('#items > .day')].map(line => {
          let item = line.nextElementSibling;
          while (item && !item.dataset.at) item = item.nextElementSibling;
          return [line.textContent.trim(), day(Number(item.dataset.at))];
        })"""
    for zone in ("America/Los_Angeles", "Pacific/Kiritimati", "UTC"):
        browser.cdp("Emulation.setTimezoneOverride", timezoneId=zone)
        browser.go(f"{url}{path}")
        browser.has("#items > .day")
        found = browser.run(script)
        assert found and all(said == true for said, true in found), (zone, found)
    browser.cdp("Emulation.setTimezoneOverride", timezoneId="")


def scrolled_up(browser, url, path, worker):
    """Who reads further up is not moved; what one sends oneself is seen."""
    for n in range(30):
        worker.say(f"line {n} of many\n\nand more")
    browser.go(f"{url}{path}")
    browser.see("line 29", "#items")
    browser.run("document.querySelector('#stream').scrollTop = 0")
    time.sleep(0.2)
    worker.say("while you read")
    browser.see("1 new", "#pill")
    clear = "return document.querySelector('#pill').getBoundingClientRect().bottom <= document.querySelector('#composer').getBoundingClientRect().top"
    assert browser.run(clear), "the pill lies on the composer"
    assert browser.run("return document.querySelector('#stream').scrollTop") < 50
    browser.type("#content", "my own word")
    browser.click("#composer button.main")
    browser.see("my own word", "#items")
    end = "const s = document.querySelector('#stream'); return s.scrollHeight - s.scrollTop - s.clientHeight"
    wait("my own message in sight", lambda: browser.run(end) < 80)


def unseen_pages_let_go(browser, url, path):
    """Eight pages of one channel: the last of them still works."""
    first = browser.call("GET", f"{browser.session}/window")
    opened = []
    for _ in range(8):
        opened.append(browser.call("POST", f"{browser.session}/window/new", {"type": "tab"})["handle"])
        browser.call("POST", f"{browser.session}/window", {"handle": opened[-1]})
        browser.go(f"{url}{path}")
        wait("a live page", lambda: browser.text("#live") == "Live", 10)
    for handle in opened:
        browser.call("POST", f"{browser.session}/window", {"handle": handle})
        browser.call("DELETE", f"{browser.session}/window")
    browser.call("POST", f"{browser.session}/window", {"handle": first})


def removal_asks(browser, url, path, worker):
    browser.go(f"{url}{path}")
    button = "form[action$='/members/slate/remove'] button"
    browser.press(button)
    browser.see("Remove?", button)
    assert worker.ask(f"{worker.api}/members", headers=worker.person)[1]["items"], "members"
    names = lambda: [one["handle"] for one in worker.ask(f"{worker.api}/members", headers=worker.person)[1]["items"]]
    assert "slate" in names()
    browser.press(button)
    wait("it is gone", lambda: "slate" not in names())


def on_a_phone(browser, url, path):
    browser.look("phone", "light")
    browser.go(f"{url}{path}")
    browser.click("[data-menu]")
    browser.has("#shell.menu")
    assert browser.run("return document.activeElement.matches('[data-close-menu]')")
    browser.click("[data-close-menu]")
    wait("the page again", lambda: browser.run("return !document.querySelector('#shell').classList.contains('menu')"))
    assert browser.run("return document.activeElement.matches('[data-menu]')")
    browser.look("desktop", "light")


def walk(browser, url, token, path, ask):
    worker = Worker(url, ask, token, path.removeprefix("/c/"))
    a_turn_ends(browser, url, path, worker)
    mine = what_is_written_stays(browser, url, path, worker)
    keys(browser, mine)
    days(browser, url, path)
    unseen_pages_let_go(browser, url, path)
    on_a_phone(browser, url, path)
    place = ask(f"{url}/api/v1/channels", "POST", {"name": "long-talk"}, {"authorization": f"Bearer {token}"})[1]["id"]
    other = Worker.__new__(Worker)
    other.__dict__ |= worker.__dict__ | {"api": f"{url}/api/v1/channels/{place}"}
    assert ask(f"{other.api}/members", "POST", {"agent": "slate"}, other.person)[0] == 201
    scrolled_up(browser, url, f"/c/{place}", other)
    removal_asks(browser, url, path, worker)
