import pytest

from outbox_admin.core import catalogue
from outbox_admin.core.cause import Cause, Kind, Phase


@pytest.mark.parametrize(
    ("cause", "words", "cure"),
    [
        (Cause(Phase.DOT, Kind.TIMEOUT), "did not answer in time after the final dot", "may have taken it"),
        (Cause(Phase.DOT, Kind.NETWORK), "Connection lost after the final dot", "may have taken it"),
        (Cause(Phase.CONNECT, Kind.NETWORK), "not reachable while connecting", "OUTBOX_SMTP_URL"),
        (Cause(Phase.RCPT, Kind.NETWORK), "Connection lost at RCPT", "ended the connection"),
        (Cause(Phase.GREETING, Kind.TIMEOUT), "at the greeting", "OUTBOX_SMTP_TLS=smtps"),
        (Cause(Phase.TLS, Kind.PROTOCOL), "at STARTTLS", "587"),
        (Cause(Phase.AUTH, Kind.AUTH_REJECTED, 535), "(535)", "OUTBOX_SMTP_PASSWORD"),
        (Cause(Phase.MAIL, Kind.SENDER_REFUSED, 530), "(530)", "wants a login"),
        (Cause(Phase.RCPT, Kind.SENDER_REFUSED, 554, "5.7.1"), "(554 5.7.1)", "does not relay for us"),
        (Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 450, "4.1.1"), "Recipient refused", "later"),
        (
            Cause(Phase.RCPT, Kind.RECIPIENT_REJECTED, 550, "5.1.1"),
            "Recipient refused",
            "a retry cannot help",
        ),
    ],
)
def test_the_person_on_call_reads_what_happened_and_what_to_do(cause, words, cure):
    assert words in catalogue.words(cause)
    assert cure in catalogue.cure(cause)


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("kind", list(Kind))
def test_every_phase_and_kind_has_words_and_a_cure(phase, kind):
    cause = Cause(phase, kind)
    assert catalogue.words(cause)
    assert catalogue.cure(cause).endswith(".")
    assert len(catalogue.cure(cause)) <= 120
