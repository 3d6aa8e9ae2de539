"""The words that a hint may consist of. Data only.

Words of the trade and the small words between them. No names, no digits, nothing that people call themselves or choose
as a password: each word added here can appear in lists, logs and pages.
"""

from __future__ import annotations

_GRAMMAR = """
a about after again all already an and any are as at be because been before but by can cannot could do does
during for from has have if in into is it later more must no not now of off on only or other out over please
such that the their then there this to too under until up was we were when which while with without you your
"""

_MAIL = """
account address addresses alias attachment auth authentication authorization blacklist blocklist body bounce
certificate character characters cipher command connection content content-type credentials data delivery
destination disk dkim dmarc dns dnsbl domain ehlo encryption envelope exchanger from gateway greeting greylist
greylisting handshake header headers helo host hostname inbox ip length line lines list login mail mailbox
mailboxes mailer malware mechanism memory message messages mime mx name network parameter parameters password
peer phishing policy port postmaster provider queue queued quota rcpt recipient recipients record records
relay relaying relays reply reputation resources reverse route sender senders sequence server servers service
session size smtp source space spam spf ssl starttls storage subject syntax system time timeout tls
transaction user username virus
"""

_EVENTS = """
abort aborted aborting accept accepted access active allowed available bad banned blacklisted blocked bounced
broken busy changed closed closing complete completed configuration connect connections contains defer
deferred delayed denied detected disabled discarded does error errors exceed exceeded exceeds exist exists
expired failed failure fatal filtered forbidden found full greylisted hold hours ignored implemented inactive
incorrect insufficient internal invalid large limit limited limits local locked long lookup lost malformed
many matching maximum minutes missing moved need needed nested non-existent none nonexistent nonexisting
obsolete ok okay order over-quota pending permanent permitted problem processing prohibited protocol rate
rate-limited reached read received recognised recognized refused reject rejected rejection require required
requires reset resolve resolved restricted retry returned rule seconds security shutting slow something
stopped such suspected suspended suspicious temporarily temporary terminated throttled throttling timed too
transient try unable unauthenticated unauthorized unavailable undeliverable unexpected unknown unrecognized
unrouteable unsolicited unsupported unverified valid verification verified verify violation waiting wrong
"""

VOCABULARY = frozenset(f"{_GRAMMAR} {_MAIL} {_EVENTS}".split())
