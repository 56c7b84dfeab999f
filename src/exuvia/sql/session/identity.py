"""Who a session is: the client's name, and the account it was let in as."""

from exuvia.sql.privileges.accounts import ALL, Account, Rights
from exuvia.sql.session.services import Services


class Identity:
    """Of a session. Without an account (embedded sessions, tests) it may do everything."""

    services: Services
    user: str
    host: str
    account: Account | None = None
    _rights = ALL
    _rights_version = 0

    @property
    def rights(self) -> Rights:
        """What its account may do now; a dropped account may do nothing more."""
        accounts = self.services.accounts
        if accounts is None or self.account is None:
            return ALL
        if self._rights_version != accounts.version:
            self._rights_version, book = accounts.version, accounts.book
            found = book.account(self.account.user, self.account.host)
            self._rights = Rights(frozenset()) if found is None else book.rights(found)
        return self._rights

    @property
    def account_name(self) -> tuple[str, str]:
        """User and host of its account, as CURRENT_USER() has it."""
        if self.account is None:
            return self.user, "%"
        return self.account.user, self.account.host
