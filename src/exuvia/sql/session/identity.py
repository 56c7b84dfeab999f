"""Who a session is: the client's name, and the account it was let in as."""

from collections.abc import Callable, Iterator

from exuvia.base.mysql_errors import ErrClientLocalFilesDisabled
from exuvia.sql.privileges.accounts import ALL, Account, Rights
from exuvia.sql.privileges.roles import Name, shown
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
    active_roles: tuple[Name, ...] = ()
    _rights = ALL
    _rights_of: tuple[int, tuple[Name, ...]] = (0, ())

    @property
    def rights(self) -> Rights:
        """What its account may do now; a dropped account may do nothing more."""
        accounts = self.services.accounts
        if accounts is None or self.account is None:
            return ALL
        wanted = accounts.version, self.active_roles
        if self._rights_of != wanted:
            self._rights_of, book = wanted, accounts.book
            found = book.account(self.account.user, self.account.host)
            nothing = Rights(frozenset())
            self._rights = nothing if found is None else book.rights(found, self.active_roles)
        return self._rights

    def enter_as(self, account: Account | None) -> None:
        """Whom it was let in as; the roles that are active from now on."""
        self.account, accounts = account, self.services.accounts
        if account is None or accounts is None:
            return
        roles = accounts.book.roles
        everyone = self.settings.get("activate_all_roles_on_login") == "ON"
        choose = roles.granted if everyone else roles.defaults_of
        self.active_roles = choose(account[:2])

    @property
    def current_role(self) -> str:
        """As CURRENT_ROLE() has it."""
        accounts = self.services.accounts
        if accounts is None or not self.active_roles:
            return "NONE"
        granted = accounts.book.roles.granted(self.account_name)
        return ",".join(shown(each) for each in self.active_roles if each in granted) or "NONE"

    def ask_for_file(self, path: str) -> Iterator[bytes]:
        """The client's own file, a chunk at a time. Raises 3948."""
        if self.local_file is None or self.settings.get("local_infile") != "ON":
            raise ErrClientLocalFilesDisabled()
        return self.local_file(path)

    @property
    def account_name(self) -> tuple[str, str]:
        """User and host of its account, as CURRENT_USER() has it."""
        if self.account is None:
            return self.user, "%"
        return self.account.user, self.account.host
