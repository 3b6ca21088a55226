"""Ways through the pages in a real browser, for scripts/browser: search, links that are shared, going back, unread marks in two tabs, notices, keys;
and a hub that goes away and comes back while a page is open.

What must hold: an address is the place, wherever it is opened; what is read in one tab is read in the other; nobody has to load a page anew
because the hub was started anew; what was written meanwhile is sent once.
"""

import os
import pathlib
import re
import socket
import subprocess
import tempfile

from browser_hub import ask, wait
from browser_live import press


def tab(browser, handle=None):
    """Another tab, or this one of several."""
    if handle is None:
        handle = browser.call("POST", f"{browser.session}/window/new", {"type": "tab"})["handle"]
    browser.call("POST", f"{browser.session}/window", {"handle": handle})
    return handle


def say(url, place, token, content, **more):
    status, said = ask(f"{url}/api/v1/channels/{place}/messages", "POST", {"content": content, **more},
                       {"authorization": f"Bearer {token}"})
    assert status == 201, said
    return said["event_id"]


def finds(browser, url, token, place):
    """A word that was said is found, its link leads to it, and back leads back."""
    old = say(url, place, token, "The kingfisher nests below the weir")
    for n in range(40):
        say(url, place, token, f"and {n} others say something else")
    browser.go(f"{url}/search")
    browser.type("#q", "kingfisher weir")
    browser.click("main form button")
    browser.see("nests below the weir")
    browser.click("main a.found")
    browser.has(f"#{old}.chosen")
    seen = "const at = document.getElementById(arguments[0]).getBoundingClientRect(); return at.top >= 0 && at.bottom <= innerHeight"
    wait("it is in sight", lambda: browser.run(seen, old))
    browser.see("Who got this, and why", "#side")
    browser.call("POST", f"{browser.session}/back", {})
    browser.see("nests below the weir")
    assert browser.run("return document.querySelector('#q').value") == "kingfisher weir"
    # Somebody who is given a link to a message sees that message.
    browser.go(f"{url}/c/{place}/t/{old}")
    browser.see("nests below the weir", "#items")
    assert "others say" not in browser.text("#items")


def helps(browser, url):
    """The keys are listed for who asks, by key and by pointer; a place is found by its name."""
    browser.go(f"{url}/fleet")
    browser.run("document.activeElement.blur()")
    press(browser, "?")
    browser.see("next, previous message", "dialog")
    press(browser, "\ue00c")
    wait("closed", lambda: not browser.run("return document.querySelector('dialog') !== null"))
    browser.click("[data-keys]")
    browser.see("why did who get this", "dialog")
    press(browser, "\ue00c")
    wait("closed", lambda: not browser.run("return document.querySelector('dialog') !== null"))
    press(browser, "/")
    browser.type("dialog input", "market")
    browser.see("Market", "dialog ul")
    press(browser, "\ue007")
    browser.see("Who can do it")


def two_tabs(browser, url, token, place):
    """What is new is marked in the tab of another page, and not any more once it was read."""
    first = browser.call("GET", f"{browser.session}/window")
    browser.go(f"{url}/account")
    mark = f"#rail a[href='/c/{place}'] .dot, #rail a[href='/c/{place}'] .count"
    other = ask(f"{url}/api/v1/agents", "POST", {"name": "wren-of-two-tabs"}, {"authorization": f"Bearer {token}"})[1]
    person = {"authorization": f"Bearer {token}"}
    assert ask(f"{url}/api/v1/channels/{place}/members", "POST", {"agent": other["address"]}, person)[0] == 201
    me = ask(f"{url}/api/v1/channels/{place}", headers=person)[1]["me"]["handle"]
    say(url, place, other["api_key"], f"@{me} is it safe?")
    notice(browser)
    wait("it is marked", lambda: browser.run("return document.querySelector(arguments[0]) !== null", mark), 40)
    second = tab(browser)
    browser.go(f"{url}/inbox")
    browser.see("is it safe?")
    browser.click("main a.waiting-row")
    browser.see("is it safe?", "#items")
    wait("the stream", lambda: browser.text("#live") == "Live")
    browser.run("document.querySelector('#stream').scrollTop = 1e9")
    tab(browser, first)
    wait("no mark", lambda: not browser.run("return document.querySelector(arguments[0]) !== null", mark), 40)
    tab(browser, second)
    browser.call("DELETE", f"{browser.session}/window")
    tab(browser, first)


def notice(browser):
    """Whoever looks elsewhere is told in the browser that more waits, once."""
    script = """const done = arguments[0]; const told = [];
        window.Notification = class { constructor(words) { told.push(words); } static get permission() { return 'granted'; } };
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => true });
        import(document.querySelector('script[type=module]').src)
          .then(async ({ renewRail }) => { await renewRail(); await renewRail(); delete document.hidden; done(told); }, (error) => done([String(error)]));"""
    told = browser.call("POST", f"{browser.session}/execute/async", {"script": script, "args": []})
    assert len(told) == 1 and re.match(r"\d+ things? waits? for you on ", told[0]), told


class Hub:
    """A hub of its own that can be ended and started anew at the same address."""

    def __init__(self, binary, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.binary, self.folder, self.process = binary, folder, None
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        environment = {n: v for n, v in os.environ.items() if not n.startswith("CHORUS_")}
        environment |= {"CHORUS_MAIL": f"dir:{self.folder}/mails", "CHORUS_RATE_LIMIT": "off"}
        self.process = subprocess.Popen(
            [self.binary, "serve", "--listen", f"127.0.0.1:{self.port}", "--data", f"{self.folder}/d"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline(), "the hub does not start"

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def sign_in(self, browser):
        browser.go(f"{self.url}/signin")
        browser.type("input[name=email]", "bea@example.org")
        browser.click("main form button")
        browser.see("a link is on its way")
        mails = pathlib.Path(self.folder, "mails")
        found = lambda: next((m[0] for mail in mails.glob("*.eml") if (m := re.search(r"https?://\S+/signin/ml_\w+", mail.read_text()))), None)
        browser.go(wait("a mail", found))
        browser.click("main form button")
        browser.see("This hub is running")
        browser.go(f"{self.url}/account")
        browser.click("form[action='/tokens'] button")
        return re.search(r"ct_[0-9a-f]{32}", browser.see("shown this once"))[0]


def comes_back(browser, binary):
    """The hub ends under an open page. What is written then waits, and is said once; what others said meanwhile is there. The cookie of
    the hub that the other walks use is gone by this: it comes last."""
    with tempfile.TemporaryDirectory() as folder:
        hub = Hub(binary, folder)
        hub.start()
        try:
            token = hub.sign_in(browser)
            person = {"authorization": f"Bearer {token}"}
            place = ask(f"{hub.url}/api/v1/channels", "POST", {"name": "weir"}, person)[1]["id"]
            browser.go(f"{hub.url}/c/{place}")
            wait("the stream", lambda: browser.text("#live") == "Live")
            browser.run("window.neverLoadedAnew = true")
            hub.stop()
            browser.see("Reconnecting, last event", "#lost")
            browser.shot("reconnecting")
            browser.type("#content", "said while nobody heard")
            browser.click("#composer button.main")
            browser.see("Waiting for the connection", "#preview")
            hub.start()
            say(hub.url, place, token, "said before you were back")
            browser.see("said while nobody heard", "#items")
            browser.see("said before you were back", "#items")
            wait("live again", lambda: browser.text("#live") == "Live")
            assert not browser.run("return document.querySelector('#lost').checkVisibility()")
            assert browser.run("return window.neverLoadedAnew") is True, "the page was loaded anew"
            assert browser.run("return document.querySelector('#content').value") == "", "it is still in the composer"
            said = ask(f"{hub.url}/api/v1/channels/{place}/events?before=end&limit=50", headers=person)[1]["items"]
            texts = [one.get("content") for one in said if one["kind"] == "message"]
            assert sorted(texts) == ["said before you were back", "said while nobody heard"], texts
        finally:
            hub.stop()


def walk(browser, url, token):
    status, made = ask(f"{url}/api/v1/channels", "POST", {"name": "ways"}, {"authorization": f"Bearer {token}"})
    assert status == 201, made
    finds(browser, url, token, made["id"])
    helps(browser, url)
    two_tabs(browser, url, token, made["id"])
