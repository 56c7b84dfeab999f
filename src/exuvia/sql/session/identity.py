"""Who a session is: the client's name, and the account it was let in as."""

from collections.abc import Callable, Iterator

from exuvia.base.mysql import refuse
from exuvia.sql.privileges.accounts import ALL, Account, Rights
from exuvia.sql.session.services import Services
from exuvia.sql.session.settings import Settings


class Identity:
    """Of a session. Without an account (embedded sessions, tests) it may do everything."""

    services: Services
    settings: Settings
    user: str
    host: str
    account: Account | None = None
    local_file: Callable[[str], Iterator[bytes]] | None = None
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

    def ask_for_file(self, path: str) -> Iterator[bytes]:
        """The client's own file, a chunk at a time. Raises 3948."""
        if self.local_file is None or self.settings.get("local_infile") != "ON":
            raise refuse(3948)
        return self.local_file(path)

    @property
    def account_name(self) -> tuple[str, str]:
        """User and host of its account, as CURRENT_USER() has it."""
        if self.account is None:
            return self.user, "%"
        return self.account.user, self.account.host
