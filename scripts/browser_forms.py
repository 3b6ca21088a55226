"""Forms and lists in a real browser, for scripts/browser: a channel's settings, one's own agents, blocks, invitations, documents, the
operator's console, the audit log.

Every form works without a script; here they are filled in as a person would, and what is refused says why and loses nothing.
"""

import tempfile


def settle(browser, url, odd):
    """Everything that a channel's settings do, in a channel of its own. Returns its path."""
    browser.go(f"{url}/channels/new")
    browser.type("#name", "harbour")
    browser.click("main form button")
    browser.has("#composer")
    path = browser.run("return location.pathname")
    browser.click("header a[href$='/settings']")
    browser.see("What it is")
    browser.type("#name", "harbour watch")
    browser.type("#context", f"Who comes in, who goes out. {odd}")
    browser.click("section[aria-labelledby=about] button")
    browser.see("Saved.")
    browser.see("harbour watch", "h1")
    browser.type("#loop_guard", "many")
    browser.type("#keep_days", "90")
    browser.click("section[aria-labelledby=rules] button")
    browser.see("must be a whole number")
    assert browser.run("return document.querySelector('#loop_guard').value") == "many"
    browser.type("#loop_guard", "4")
    browser.click("section[aria-labelledby=rules] button")
    browser.see("Saved.")
    assert browser.run("return document.querySelector('#keep_days').value") == "90"
    browser.type("#glyph-seen", "🫡")
    browser.click("section[aria-labelledby=signs] button")
    browser.see("Saved.")
    browser.see("Transfer it to somebody else first")
    browser.click("section[aria-labelledby=members] summary")
    browser.type("#roles-1", "pilot oncall")
    browser.click("section[aria-labelledby=members] form button")
    browser.see("oncall pilot")
    # What cannot be seen cannot be pressed: it asks first.
    assert browser.run("return document.querySelector('form[action$=archive] button').checkVisibility()") is False
    browser.click("section[aria-labelledby=end] summary")
    browser.click("form[action$=archive] button")
    browser.see("This channel is archived")
    browser.go(f"{url}/channels?archived=true")
    browser.see("harbour watch")
    browser.click("td a[href$='/settings']")
    browser.see("This channel is archived")
    browser.click("form[action$=restore] button")
    browser.see("Saved.")
    return path


def write(browser, url, path, odd):
    """A document is written, edited and removed; another stays. Returns its path."""
    for title in ("Log of the day", f"Rules {odd}"[:200]):
        browser.go(f"{url}{path}?side=documents")
        browser.click("#side a[href$='/write']")
        browser.see("Name in its address")
        browser.type("#title", title)
        browser.type("#content", f"# {title}\n\nThe tide is *out*.")
        browser.click("main form button")
        browser.see("The tide is out")
    page = browser.run("return location.pathname")
    browser.click("a[href$='/edit']")
    browser.see("Save as version 2")
    browser.type("#content", f"The tide is in. {odd}")
    browser.click("main form button")
    browser.see("The tide is in")
    browser.see("version 2")
    upload(browser, url, path)
    browser.go(f"{url}{path}/documents/log-of-the-day")
    browser.click("main details:has(form[action$=remove]) summary")
    browser.click("form[action$=remove] button")
    browser.has("#side")
    assert "Log of the day" not in browser.see("Rules", "#side")
    return page


def upload(browser, url, path):
    """A file becomes a document, and then its second version; a text that is refused stands in the form."""
    browser.go(f"{url}{path}/write")
    with tempfile.NamedTemporaryFile("w", prefix="tides-", suffix=".md") as file:
        file.write("# Tides\n\nHigh at *nine*.")
        file.flush()
        browser.call("POST", f"{browser.find('#file')}/value", {"text": file.name})
        browser.type("#called", "Tides.md")
        browser.click("form[action$=upload] button")
        browser.see("High at nine.")
        page = browser.run("return location.pathname")
        assert page.endswith("/documents/tides"), page
        file.write("\n\nLow at three.")
        file.flush()
        browser.click("details:has(form[action$=upload]) summary")
        browser.call("POST", f"{browser.find('#file')}/value", {"text": file.name})
        browser.click("form[action$=upload] button")
        browser.see("Low at three.")
        browser.see("version 2")
        browser.go(f"{url}{path}/write")
        browser.call("POST", f"{browser.find('#file')}/value", {"text": file.name})
        browser.type("#called", "Tides.md")
        browser.click("form[action$=upload] button")
        browser.see("there is a document of this slug already".capitalize())
        assert "Low at three." in browser.run("return document.querySelector('#content').value")


def keep(browser, url, odd):
    """An agent of one's own is edited, paused and let go on; another one is removed. Returns the settings of the first."""
    for name in ("tender", "brief"):
        browser.go(f"{url}/directory/new")
        browser.type("#name", name)
        browser.click("main form button")
        browser.see("shown this once")
        browser.click("main a.button")
        browser.see("It is yours")
        browser.click("a[href$='/settings']")
        browser.see("Directory entry")
        if name == "tender":
            settings = browser.run("return location.pathname")
            browser.type("#description", f"Brings ships in. {odd}")
            browser.type("#card", "{no card")
            browser.click("section[aria-labelledby=about] button")
            browser.see("must be a JSON object")
            browser.type("#card", '{"card_version": "0.3", "user_culture": "en", "supported_languages": ["en"]}')
            browser.click("section[aria-labelledby=about] button")
            browser.see("Saved.")
            browser.type("#endpoint", "http://127.0.0.1:9/receive")
            browser.click("section[aria-labelledby=reached] button")
            browser.see("Its webhook is at 127.0.0.1")
            browser.click("details:has(form[action$=unhook]) summary")
            browser.click("form[action$=unhook] button")
            browser.see("It has no webhook")
            browser.click("section[aria-labelledby=pause] button")
            browser.see("It is paused")
            browser.click("section[aria-labelledby=pause] button")
            browser.see("Pause it")
    browser.click("section[aria-labelledby=remove] summary")
    browser.type("#confirm", "another")
    browser.click("form[action$=remove] button")
    browser.see("so that nothing is removed by accident")
    browser.type("#confirm", "brief")
    browser.click("form[action$=remove] button")
    assert "brief" not in browser.see("Your agents")
    return settings


def guard(browser, url):
    """Blocks and invitations: made, listed, undone. One of each stays, to be looked at."""
    browser.go(f"{url}/blocks")
    browser.see("Nobody.")
    for who in ("mallory@example.org", "eve@example.org"):
        browser.type("#who", who)
        browser.click("form[action='/blocks'] button")
        browser.see(who)
    browser.click("form[action$=remove] button")
    browser.see("@example.org")
    assert browser.run("return document.querySelectorAll('form[action$=remove]').length") == 1
    for email in ("new@example.org", "newer@example.org"):
        browser.go(f"{url}/account")
        browser.type("#email", email)
        browser.click("form[action='/invitations'] button")
        browser.see("Whoever opens this link")
    browser.go(f"{url}/account")
    browser.see("newer@example.org")
    browser.click("form[action$=revoke][action^='/invitations'] button")
    browser.see("Your account", "h1")
    shown = browser.text("section[aria-labelledby=invite]")
    assert ("new@" in shown) != ("newer@" in shown), shown
    browser.type("#name", "Anna of the harbour")
    browser.click("form[action='/account'] button")
    browser.see("Anna of the harbour")
    browser.type("#name", "anna")
    browser.click("form[action='/account'] button")


def operate(browser, url):
    """The console says how log, store and limits are, and the audit log reads as sentences. The key was shown before."""
    browser.go(f"{url}/operator")
    browser.see("It has just written")
    browser.see("Its head is signed, and reads as what is there")
    browser.see("requests of one key")
    browser.go(f"{url}/operator/audit")
    browser.see("anna@example.org made a token.")
    browser.see("anna@example.org removed the agent brief.")
    browser.click(".audit summary")
    browser.see('"request_id"')
    browser.run("document.querySelector('#action').value = 'agent.unregistered'")
    browser.type("#actor", "anna@example.org")
    browser.click("main form button")
    browser.see("removed the agent brief")
    assert "made a token" not in browser.text()
    browser.type("#actor", "nobody-of-this-name")
    browser.click("main form button")
    browser.see("this is none of them")


def walk(browser, url, odd):
    """All of it, for who is signed in. Returns the pages that there are to look at."""
    channel = settle(browser, url, odd)
    document = write(browser, url, channel, odd)
    agent = keep(browser, url, odd)
    guard(browser, url)
    return {"channels": "/channels", "channel-settings": f"{channel}/settings", "document-write": f"{channel}/write",
            "document-edit": f"{document}/edit", "agent-settings": agent, "blocks": "/blocks"}
