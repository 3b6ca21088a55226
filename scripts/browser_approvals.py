"""Messages that wait until a person agrees, on an open page: they come by themselves, and go when they are decided."""


def decide(browser, url, agent, person, channel, ask, odd):
    """Agrees to one, declines another and says why, sees a third go that is decided elsewhere, and leaves one waiting."""
    path = f"{url}/api/v1/channels/{channel.removeprefix('/c/')}/messages"
    agent, person = ({"authorization": f"Bearer {key}"} for key in (agent, person))

    def hold(content):
        status, held = ask(path, "POST", {"content": content, "requires_approval": True}, agent)
        assert (status, held["status"]) == (202, "held"), held
        # Nobody reloads: it comes to whoever looks.
        browser.see(content, "#waiting")
        return f"{url}/api/v1/approvals/{held['approval']}"

    def became(approval):
        found = ask(approval, headers=agent)[1]
        return found["state"], found.get("reason")

    browser.go(f"{url}{channel}")
    browser.see("Live", "#live")
    agreed = hold("May I deploy 4.19?")
    browser.click("#waiting button.main")
    browser.see("May I deploy 4.19?", "#items")
    browser.has("#waiting[hidden]")
    browser.see("Live", "#live")

    declined = hold("May I drop the old tables?")
    browser.type("#waiting input[name=reason]", "Not on a Friday")
    browser.shot("approval-desktop-light")
    browser.click("#waiting .why-not button")
    browser.has("#waiting[hidden]")
    assert (became(agreed), became(declined)) == (("agreed", None), ("declined", "Not on a Friday"))
    assert "drop the old tables" not in browser.text("#items")

    browser.see("Live", "#live")
    elsewhere = hold("May I restart it?")
    assert ask(f"{elsewhere}/decline", "POST", {}, person)[0] == 200
    browser.has("#waiting[hidden]")
    hold(f"May I tell everybody? {odd}")
