"""Every action there is, by its code. Each file reads as the table of its path."""

from exuvia.ddl.action import Action
from exuvia.ddl.actions.column import ADD_COLUMN, DROP_COLUMN
from exuvia.ddl.actions.database import CREATE_DATABASE, DROP_DATABASE
from exuvia.ddl.actions.index import ADD_INDEX, ADD_PRIMARY_KEY, DROP_INDEX, DROP_PRIMARY_KEY
from exuvia.ddl.actions.table import CREATE_TABLE, DROP_TABLE
from exuvia.ddl.codes import ActionCode

ACTIONS: dict[ActionCode, Action] = {
    action.code: action
    for action in (
        CREATE_DATABASE,
        DROP_DATABASE,
        CREATE_TABLE,
        DROP_TABLE,
        ADD_COLUMN,
        DROP_COLUMN,
        ADD_INDEX,
        DROP_INDEX,
        ADD_PRIMARY_KEY,
        DROP_PRIMARY_KEY,
    )
}
