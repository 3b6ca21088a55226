#!/usr/bin/env python3
"""A worker: finds the amounts of money in a text. Input data on standard input, output data on standard output."""

import json
import re
import sys

text = json.load(sys.stdin)["text"]
amounts = [int(amount.replace(",", "")) for amount in re.findall(r"\$([\d,]+)", text)]
print(json.dumps({"amounts": amounts}))
