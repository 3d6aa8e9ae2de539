"""Signing in and out. Unknown account and wrong password look and last the same."""

from __future__ import annotations

from flask import Blueprint, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from outbox_admin.db.reads import accounts
from outbox_admin.db.store import sessions, throttle, users
from outbox_admin.db.store.throttle import Limit
from outbox_admin.web import audit, passwords, tickets
from outbox_admin.web.frame import leave_note
from outbox_admin.web.guard import ANONYMOUS, access, check_unlocked, safe_next
from outbox_admin.web.visit import Role, Visit, visit

pages = Blueprint("account", __name__)

PER_ACCOUNT = Limit(free=5)
#: Many people may sit behind one address.
PER_ADDRESS = Limit(free=30)

WRONG = "Name or password is wrong."
WAIT = "Too many tries. Wait a little, then try again."


@pages.get("/login")
@access(ANONYMOUS)
def sign_in() -> BaseResponse:
    check_unlocked()
    if visit().principal is not None:
        return redirect(_target(request.args.get("next", "")), 303)
    return _form(200)


@pages.post("/login")
@access(ANONYMOUS)
def enter() -> BaseResponse:
    asking, name = visit(), _name()
    if (wait := _charge(asking, name)) is not None:
        answer = _form(429, WAIT)
        answer.headers["Retry-After"] = str(wait)
        return answer
    account = accounts.account(asking.db, name)
    asking.db.rollback()  # no transaction stays open while the password is hashed
    password = request.form.get("password", "")[:1024]
    if not passwords.verify(password, account.password_hash if account else None) or account is None:
        audit.record(asking, "sign-in", target=account.name if account else "", result="refused")
        asking.db.commit()
        return _form(422, WRONG)
    return _welcome(asking, account, password)


@pages.post("/logout")
@access(Role.VIEWER)
def leave() -> BaseResponse:
    asking = visit()
    sessions.close_session(asking.db, token_hash=tickets.hashed(asking.cookie or ""))
    audit.record(asking, "sign-out")
    asking.db.commit()
    answer = redirect(url_for("outbox.account.sign_in"), 303)
    answer.headers["Clear-Site-Data"] = '"cache"'
    tickets.drop_cookie(answer)
    return leave_note(answer, "You are signed out.")


def _welcome(asking: Visit, account: accounts.Account, password: str) -> BaseResponse:
    token = tickets.open_for(asking, account)
    throttle.forgive(asking.db, subject=_account_subject(asking, account.name))
    if passwords.is_weak(account.password_hash):
        users.renew_hash(asking.db, account.id, password_hash=passwords.renewed(password))
    audit.record(asking, "sign-in", target=account.name, actor=account.name)
    asking.db.commit()
    answer = redirect(_target(request.form.get("next", "")), 303)
    tickets.set_cookie(answer, token)
    return answer


def _charge(asking: Visit, name: str) -> int | None:
    """Seconds to wait, or None: the try is counted and may go on."""
    subjects = (
        (_account_subject(asking, name), PER_ACCOUNT),
        (asking.console.signer.keyed_hash("address", request.remote_addr or ""), PER_ADDRESS),
    )
    throttle.forget_old(asking.db, now=asking.now)
    for subject, limit in subjects:
        if not throttle.charge(asking.db, subject=subject, limit=limit, now=asking.now):
            until = throttle.blocked_until(asking.db, subject=subject, now=asking.now)
            asking.db.commit()
            return max(1, round((until - asking.now).total_seconds())) if until else 1
    asking.db.commit()
    return None


def _account_subject(asking: Visit, name: str) -> str:
    return asking.console.signer.keyed_hash("account", name)


def _name() -> str:
    """As it is stored; without NUL, which PostgreSQL refuses."""
    return request.form.get("name", "").replace("\0", "").strip().casefold()[:200]


def _form(code: int, problem: str = "") -> BaseResponse:
    """Sets the cookie that binds the form, if the browser has none yet."""
    asking = visit()
    fresh = asking.cookie is None
    asking.cookie = asking.cookie or tickets.new_token()
    page = safe_next(request.values.get("next", ""))
    answer = make_response(
        render_template(
            "outbox/sign_in.html", problem=problem, name=request.form.get("name", ""), target=page or ""
        ),
        code,
    )
    if fresh:
        tickets.set_cookie(answer, asking.cookie)
    return answer


def _target(page: str) -> str:
    return safe_next(page) or url_for("outbox.overview.show")
