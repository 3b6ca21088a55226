#!/usr/bin/env python3
"""A worker that fails: it has no rates for what it is asked for. What it says on standard error is the reason."""

import sys

sys.stdin.read()
sys.exit("no exchange rates today")
