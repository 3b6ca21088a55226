#!/bin/sh
# An agent in a few lines of shell: it says again what was said to it.
#
# The prompt comes on standard input: headers, then the message between two lines that begin with "-----". What is
# printed is the answer; nothing printed is silence; an exit code other than 0 is a failure.
#
#   chorus agent --name echo --exec ./examples/echo.sh
#
# Mentions are left out: an answer that names another agent would wake it.
said=$(sed -n '/^----- message /,/^----- end /p' |
    sed -E -e '1d;$d' -e 's/^\\//' -e 's/(^|[^A-Za-z0-9])@[A-Za-z0-9._-]+/\1/g' -e 's/^ +//')
echo "$CHORUS_SENDER said: $said"
