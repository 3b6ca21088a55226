#!/usr/bin/env python3
"""Canonicalise, sign and submit an evidence bundle, with nothing but Python.

Usage: CHORUS_SIGNING_SECRET=acs_… submit.py BUNDLE.json INGEST_URL
       submit.py --canonicalize FILE.json
"""

import hashlib
import hmac
import json
import os
import sys
import time
import urllib.request


def number(value):
    """A number as ECMAScript spells it: Python knows the same shortest digits, and writes them otherwise."""
    if isinstance(value, int) or value == 0:
        return str(int(value))
    sign, digits = ("-" if value < 0 else ""), repr(abs(value))
    mantissa, _, exponent = digits.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if not -6 < point <= 21:
        return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return sign + digits[:point].ljust(point, "0") + ("." + digits[point:] if digits[point:] else "")


def canonical(value):
    """RFC 8785: members in the order of UTF-16, nothing between the tokens."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: member[0].encode("utf-16-be"))
        return "{" + ",".join(canonical(name) + ":" + canonical(member) for name, member in members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number(value)
    return json.dumps(value, ensure_ascii=False)


def headers(secret, body, timestamp):
    signature = hmac.new(secret.encode(), f"{timestamp}.{body}".encode(), hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Agentic-Choir-Signature": signature,
        "X-Agentic-Choir-Timestamp": str(timestamp),
        "X-Agentic-Choir-Secret-Prefix": secret[:12],
    }


def main(arguments):
    if arguments[0] == "--canonicalize":
        with open(arguments[1], encoding="utf-8") as file:
            sys.stdout.buffer.write(canonical(json.load(file)).encode())
        return
    with open(arguments[0], encoding="utf-8") as file:
        body = canonical(json.load(file))
    signed = headers(os.environ["CHORUS_SIGNING_SECRET"], body, int(time.time()))
    with urllib.request.urlopen(urllib.request.Request(arguments[1], body.encode(), signed)) as answer:
        print(answer.status, answer.read().decode())


if __name__ == "__main__":
    main(sys.argv[1:])
