"""The words that a hint may consist of. Data only.

Words of the trade and the small words between them. No names, no digits, nothing that people call themselves or choose
as a password: each word added here can appear in lists, logs and pages.
"""

from __future__ import annotations

_GRAMMAR = """
a about after again all already an and any are as at be because been before but by can cannot could do does during for
from has have if in into is it later more must no not now of off on only or other out over please such that the their
then there this to too under until up was we were when which while with without you your
"""

_MAIL = """
account address addresses alias attachment body bounce command connection content data delivery destination domain dns
envelope exchanger from gateway greeting header headers helo ehlo host hostname inbox ip mail mailbox mailboxes mailer
message messages mx name network parameter parameters peer policy port postmaster provider queue queued quota rcpt
recipient recipients record records relay relaying relays reply reputation reverse route sender senders sequence server
servers service session size smtp source spf dkim dmarc dnsbl starttls ssl subject syntax system tls certificate
handshake cipher transaction user username mechanism login password credentials auth authentication authorization
encryption storage disk space memory resources timeout time list blocklist blacklist greylist greylisting spam virus
malware phishing content-type mime line lines character characters length
"""

_EVENTS = """
abort aborted accept accepted access active aborting allowed available bad banned blocked blacklisted bounced broken busy
changed closed closing complete completed configuration connect connections contains defer deferred delayed denied
detected disabled discarded does error errors exceed exceeded exceeds exist exists expired failed failure fatal filtered
forbidden found full greylisted hold ignored implemented inactive incorrect insufficient internal invalid large limit
limited limits local locked lookup long lost malformed many matching maximum missing moved need needed nested none
nonexistent nonexisting obsolete ok okay order permanent permitted pending problem processing prohibited protocol rate
read reached received recognized recognised refused reject rejected rejection require required requires resolve resolved
reset restricted retry returned rule security seconds minutes hours shutting slow something stopped such suspected
suspended suspicious temporarily temporary terminated throttled throttling timed too transient try unable unauthenticated
unauthorized unavailable undeliverable unexpected unknown unrecognized unrouteable unsolicited unsupported unverified
valid verification verified verify violation waiting wrong over-quota rate-limited non-existent
"""

VOCABULARY = frozenset(f"{_GRAMMAR} {_MAIL} {_EVENTS}".split())
