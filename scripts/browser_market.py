"""The market in a real browser: the operator makes credits, a person finds, hires and pays, takes a job back, reads the ledger.

A part of scripts/browser, which gives it a browser and the tools that it needs.
"""

import json
import threading

from browser_hub import entries


class Worker:
    """An agent that earns: it does the jobs that come to its inbox, except those that are too slow for it."""

    def __init__(self, url, ask, odd):
        self.url, self.ask = url, ask
        skills = [
            {"skill_name": "read.plan", "description": f"Reads a plan. {odd}", "cost_per_call": 2.5, "input_schema": {"text": "string"}},
            {"skill_name": "read.slowly", "description": "Takes for ever", "cost_per_call": 1, "input_schema": {"text": "string", "pages": "integer", "loud": "boolean"}},
        ]
        status, made = ask(f"{url}/market/register", "POST", {"agent_name": "marl", "owner_id": "Ridge Lab", "skills": skills})
        assert status == 201, made
        self.id, self.key = made["agent_id"], made["api_key"]
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for kind, data in entries(self.url, self.key):
            if kind == "job":
                self.do(data)
            elif kind == "quote":
                offer = {"price": 2.25, "expected_ms": 45000}
                offers = f"{self.url}/market/quotes/{data['quote_id']}/offer"
                self.ask(offers, "POST", offer, {"authorization": f"Bearer {self.key}"})

    def do(self, job):
        if job["skill_name"] == "read.plan":
            output = {"verdict": "clean", "of": job["input_data"]["text"]}
            result = {"job_id": job["job_id"], "status": "SUCCESS", "output_data": output, "execution_cost": 2.5}
            self.ask(job["callback_url"], "POST", result)


def make_credits(browser, url):
    """The browser has shown the operator's key before."""
    browser.go(f"{url}/operator/market")
    browser.see("The books balance")
    browser.type("#owner", "anna@example.org")
    browser.type("#amount", "40")
    browser.click("button[value=mint]")
    browser.see("Made 40.00 credits")
    browser.type("#owner", "anna@example.org")
    browser.type("#amount", "1.5")
    browser.click("button[value=burn]")
    browser.see("has 38.50 now")


def hire(browser, url, skill, text):
    browser.go(f"{url}/market?skill={skill}")
    browser.see("Who can do it")
    browser.click("td a.button")
    browser.see("What happens to the budget")
    browser.type("textarea", text)


def take_offer(browser, url, odd):
    """Asks for offers, sees one come in, takes it. Returns the page of the offers as they were, and of those that ended so."""
    browser.go(f"{url}/market?skill=read.plan")
    browser.click("a[href^='/quotes/new']")
    browser.see("Nothing is held or paid before you accept an offer")
    browser.type("#input", "no json")
    browser.click("main form button")
    browser.see("must be a JSON object")
    browser.type("#input", json.dumps({"text": odd}))
    browser.type("#seconds", "60")
    browser.click("main form button")
    browser.see("for you")  # It comes in by itself.
    browser.see("2.25")
    waiting = browser.run("return location.pathname")
    browser.go(f"{url}/quotes/new?skill=read.plan")
    browser.type("#input", json.dumps({"text": odd}))
    browser.click("main form button")
    browser.see("for you")
    taken = browser.run("return location.pathname")
    browser.click("main form button")
    browser.see("What came of it")
    browser.see("2.25 paid")
    return waiting, taken


def offer_skill(browser, url, odd):
    """A person makes an agent and offers what it can do."""
    browser.go(f"{url}/directory/new")
    browser.type("#name", "scribe")
    browser.click("main form button")
    browser.see("scribe")
    browser.click("main a[href^='/directory/']")
    browser.see("Offer a skill")
    browser.click("details:has(#skill_name) summary")
    agent = browser.run("return location.pathname")
    browser.type("#skill_name", "write.minutes")
    browser.type("#cost", "cheap")
    browser.type("#description", odd)
    browser.click("form[action$=skills] button")
    browser.has(".notice.bad")
    browser.type("#cost", "0.40")
    browser.click("form[action$=skills] button")
    browser.see("What it offers")
    browser.see("0.40")
    return agent


def trade(browser, url, ask, odd):
    """Every flow of the market. Returns the pages that there are to look at."""
    worker = Worker(url, ask, odd)
    make_credits(browser, url)

    hire(browser, url, "read.plan", odd)
    browser.type("#budget", "3")
    browser.click("main form button")
    browser.see("What came of it")  # The page looks again by itself.
    paid = browser.run("return location.pathname")
    browser.see("2.50 paid, the rest returned")
    browser.see("50.0000 + 2.0 × 50.0000 / 100 = 51.0000")

    hire(browser, url, "read.slowly", odd)
    browser.type("main input[inputmode=decimal]", "not a number")
    browser.click("main form button")
    browser.see("must be a number")
    browser.type("main input[inputmode=decimal]", "12")
    browser.click("main form button")
    browser.has("[data-left]")
    browser.see("4:5", "[data-left]")  # It counts.
    opened = browser.run("return location.pathname")
    hire(browser, url, "read.slowly", "never mind")
    browser.type("main input[inputmode=decimal]", "1")
    browser.click("main form button")
    browser.has("form[action$=cancel]")
    back = browser.run("return location.pathname")
    browser.click("form[action$=cancel] button")
    browser.see("taken back")

    browser.go(f"{url}/wallet")
    browser.see("The books balance")
    browser.type("#to_owner", "Ridge Lab")
    browser.type("#amount", "99")
    browser.click("form[action='/wallet/send'] button")
    browser.has(".notice.bad")
    browser.type("#amount", "0.25")
    browser.click("form[action='/wallet/send'] button")
    browser.see("−0.25")
    ledger = browser.text()
    # 40.00 - 1.50 made, 2.50 paid, 0.25 sent, 1.00 held for the open job.
    assert "34.75" in ledger and "Held" in ledger and "Returned" in ledger, ledger
    waiting, taken = take_offer(browser, url, odd)
    own = offer_skill(browser, url, odd)
    agent = f"/directory/{worker.id}"
    return {"market": "/market", "market-found": "/market?skill=read.plan", "jobs": "/jobs", "job-paid": paid, "job-open": opened,
            "job-taken-back": back, "wallet": "/wallet", "hire": f"{agent}/hire", "market-agent": agent,
            "reputation": f"{agent}/reputation", "credits": "/operator/market", "offers-ask": "/quotes/new?skill=read.plan",
            "offers-open": waiting, "offers-taken": taken, "offer-a-skill": own}
