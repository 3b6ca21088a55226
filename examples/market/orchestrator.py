#!/usr/bin/env python3
"""An orchestrator: hires a worker for each step, pays those that deliver, and goes on without those that do not.

It needs nothing but the market's document: JSON over HTTP. CHORUS_URL names the hub, CHORUS_KEY is the owner's key.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

MARKET = os.environ["CHORUS_URL"] + "/market"


def call(path, body=None):
    request = urllib.request.Request(
        MARKET + path, json.dumps(body).encode() if body is not None else None,
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["CHORUS_KEY"]},
    )
    try:
        with urllib.request.urlopen(request) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        sys.exit(f"{path}: {error.code} {error.read().decode()}")


def hire(skill, input_data, budget):
    """Hires the best agent of a skill, and waits for what comes of it."""
    found = call(f"/discover?skill={urllib.parse.quote(skill)}&max_cost={budget}")["agents"]
    print(f"{skill}: {found[0]['agent_name']} asks {found[0]['skill']['cost_per_call']}")
    # The id is ours: the same job again is the same job.
    job = {"job_id": str(uuid.uuid4()), "skill_name": skill, "input_data": input_data, "budget": budget,
           "agent_id": found[0]["agent_id"], "deadline_ms": 60000}
    ended = call("/jobs", job)
    while ended["status"] == "PENDING":
        time.sleep(0.2)
        ended = call(f"/jobs/{job['job_id']}")
    return ended


def main():
    owner = sys.argv[1]
    text = "Revenue for Q3 was $42,000, and $1,500 of it is still to be paid."
    amounts = hire("extract_amounts", {"text": text}, 0.15)
    print(f"  {amounts['status']}, paid {amounts['settled']}: {amounts['result']['output_data']}")
    euros = hire("convert", amounts["result"]["output_data"], 0.20)
    print(f"  {euros['status']}, paid {euros['settled']}: {euros['error']['message']}")
    wallet = call(f"/wallets/{urllib.parse.quote(owner)}")
    print(f"left {wallet['balance']}, held {wallet['held']}")


if __name__ == "__main__":
    main()
