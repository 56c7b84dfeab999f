"""Every error that a client may get, by the name that TiDB gives it: code, SQLSTATE and text.

    raise ErrNoSuchTable("test", "t")            1146 42S02 Table 'test.t' doesn't exist
    raise ErrTruncatedWrongValue.with_text(...)  1292 22007, with a text of its own
    if error.code == ErrDupEntry.code:

The names are those of TiDB's pkg/errno/errcode.go. Numbers that TiDB lacks, or uses for another
error, have MySQL's symbol in the same style: ER_REGEXP_TIME_OUT is ErrRegexpTimeOut. The texts are
MySQL's and TiDB's; each `%s` is an argument. The errors are in the order of their codes.
"""

from typing import NamedTuple

from exuvia.base.errors import Refused


class MySQLError(NamedTuple):
    """A kind of error; called with what its text names, it gives the Refused to raise."""

    code: int
    state: str
    text: str

    def __call__(self, *arguments: object) -> Refused:
        return Refused(self.code, self.state, self.text % arguments if arguments else self.text)

    def with_text(self, text: str, listing: str = "") -> Refused:
        """The same with a text of its own. `listing`: see Refused."""
        return Refused(self.code, self.state, text, listing)


# -- files: MySQL names these EE_... --

EECantCreateFile = MySQLError(1, "HY000", "Can't create/write to file '%s' (%s)")
EEFileNotFound = MySQLError(29, "HY000", "File '%s' not found (OS errno %s - %s)")

# -- databases, tables, columns, indexes, connections, privileges --

ErrDBCreateExists = MySQLError(1007, "HY000", "Can't create database '%s'; database exists")
ErrDBDropExists = MySQLError(1008, "HY000", "Can't drop database '%s'; database doesn't exist")
ErrDiskFull = MySQLError(1021, "HY000", "Disk full (%s); waiting for someone to free some space...")
ErrErrorOnRename = MySQLError(1025, "HY000", "Error on rename of '%s' to '%s' (errno: %s - %s)")
ErrErrorOnWrite = MySQLError(1026, "HY000", "Error writing file '%s' (errno: %s - %s)")
ErrConCount = MySQLError(1040, "08004", "Too many connections")
ErrHandshake = MySQLError(1043, "08S01", "Bad handshake")
ErrDBaccessDenied = MySQLError(1044, "42000", "Access denied for user '%s'@'%s' to database '%s'")
ErrAccessDenied = MySQLError(1045, "28000", "Access denied for user '%s'@'%s' (using password: %s)")
ErrNoDB = MySQLError(1046, "3D000", "No database selected")
ErrUnknownCom = MySQLError(1047, "08S01", "Unknown command")
ErrBadNull = MySQLError(1048, "23000", "Column '%s' cannot be null")
ErrBadDB = MySQLError(1049, "42000", "Unknown database '%s'")
ErrTableExists = MySQLError(1050, "42S01", "Table '%s' already exists")
ErrBadTable = MySQLError(1051, "42S02", "Unknown table '%s'")
ErrNonUniq = MySQLError(1052, "23000", "Column '%s' in %s is ambiguous")
ErrServerShutdown = MySQLError(1053, "08S01", "Server shutdown in progress")
ErrBadField = MySQLError(1054, "42S22", "Unknown column '%s' in '%s'")
ErrFieldNotInGroupBy = MySQLError(
    1055,
    "42000",
    "Expression #%s of SELECT list is not in GROUP BY clause and contains nonaggregated column "
    "'%s' which is not functionally dependent on columns in GROUP BY clause; this is "
    "incompatible with sql_mode=only_full_group_by",
)
ErrTooLongIdent = MySQLError(1059, "42000", "Identifier name '%s' is too long")
ErrDupFieldName = MySQLError(1060, "42S21", "Duplicate column name '%s'")
ErrDupKeyName = MySQLError(1061, "42000", "Duplicate key name '%s'")
ErrDupEntry = MySQLError(1062, "23000", "Duplicate entry '%s' for key '%s'")
ErrWrongFieldSpec = MySQLError(1063, "42000", "Incorrect column specifier for column '%s'")
ErrParse = MySQLError(
    1064,
    "42000",
    "You have an error in your SQL syntax; check the manual that corresponds to your TiDB "
    "version for the right syntax to use %s",
)
ErrEmptyQuery = MySQLError(1065, "42000", "Query was empty")
ErrNonuniqTable = MySQLError(1066, "42000", "Not unique table/alias: '%s'")
ErrInvalidDefault = MySQLError(1067, "42000", "Invalid default value for '%s'")
ErrMultiplePriKey = MySQLError(1068, "42000", "Multiple primary key defined")
ErrTooManyKeys = MySQLError(1069, "42000", "Too many keys specified; max %s keys allowed")
ErrTooManyKeyParts = MySQLError(1070, "42000", "Too many key parts specified; max %s parts allowed")
ErrTooLongKey = MySQLError(
    1071,
    "42000",
    "Specified key was too long (%s bytes); max key length is %s bytes",
)
ErrKeyColumnDoesNotExits = MySQLError(1072, "42000", "Key column '%s' doesn't exist in table")
ErrTooBigFieldlength = MySQLError(
    1074,
    "42000",
    "Column length too big for column '%s' (max = %s); use BLOB or TEXT instead",
)
ErrWrongAutoKey = MySQLError(
    1075,
    "42000",
    "Incorrect table definition; there can be only one auto column and it must be defined as a key",
)
ErrWrongFieldTerminators = MySQLError(
    1083,
    "42000",
    "Field separator argument is not what is expected; check the manual",
)
ErrFileExists = MySQLError(1086, "HY000", "File '%s' already exists")
ErrWrongSubKey = MySQLError(
    1089,
    "HY000",
    "Incorrect prefix key; the used key part isn't a string, the used length is longer than the "
    "key part, or the storage engine doesn't support unique prefix keys",
)
ErrCantRemoveAllFields = MySQLError(
    1090,
    "42000",
    "You can't delete all columns with ALTER TABLE; use DROP TABLE instead",
)
ErrCantDropFieldOrKey = MySQLError(1091, "42000", "Can't DROP '%s'; check that column/key exists")
ErrNoSuchThread = MySQLError(1094, "HY000", "Unknown thread id: %s")
ErrKillDenied = MySQLError(1095, "HY000", "You are not owner of thread %s")
ErrNoTablesUsed = MySQLError(1096, "HY000", "No tables used")
ErrTooBigSet = MySQLError(1097, "HY000", "Too many strings for column %s and SET")
ErrBlobCantHaveDefault = MySQLError(
    1101,
    "42000",
    "BLOB/TEXT/JSON column '%s' can't have a default value",
)
ErrWrongDBName = MySQLError(1102, "42000", "Incorrect database name '%s'")
ErrWrongTableName = MySQLError(1103, "42000", "Incorrect table name '%s'")
ErrUnknown = MySQLError(1105, "HY000", "%s")
ErrUnknownTable = MySQLError(1109, "42S02", "Unknown table '%s' in %s")
ErrFieldSpecifiedTwice = MySQLError(1110, "42000", "Column '%s' specified twice")
ErrInvalidGroupFuncUse = MySQLError(1111, "HY000", "Invalid use of group function")
ErrTableMustHaveColumns = MySQLError(1113, "42000", "A table must have at least 1 column")
ErrRecordFileFull = MySQLError(1114, "HY000", "The table '%s' is full")
ErrUnknownCharacterSet = MySQLError(1115, "42000", "Unknown character set: '%s'")
ErrTooManyTables = MySQLError(
    1116, "HY000", "Too many tables; MySQL can only use %s tables in a join"
)
ErrTooManyFields = MySQLError(1117, "HY000", "Too many columns")
ErrPasswordNoMatch = MySQLError(1133, "42000", "Can't find any matching row in the user table")
ErrWrongValueCountOnRow = MySQLError(
    1136,
    "21S01",
    "Column count doesn't match value count at row %s",
)
ErrInvalidUseOfNull = MySQLError(1138, "22004", "Invalid use of NULL value")
ErrRegexp = MySQLError(1139, "42000", "Got error '%s' from regexp")
ErrMixOfGroupFuncAndFields = MySQLError(
    1140,
    "42000",
    "In aggregated query without GROUP BY, expression #%s of SELECT list contains nonaggregated "
    "column '%s'; this is incompatible with sql_mode=only_full_group_by",
)
ErrNonexistingGrant = MySQLError(
    1141,
    "42000",
    "There is no such grant defined for user '%s' on host '%s'",
)
ErrTableaccessDenied = MySQLError(
    1142,
    "42000",
    "%s command denied to user '%s'@'%s' for table '%s'",
)
ErrColumnaccessDenied = MySQLError(
    1143,
    "42000",
    "%s command denied to user '%s'@'%s' for column '%s' in table '%s'",
)
ErrIllegalGrantForTable = MySQLError(
    1144,
    "42000",
    "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can be used",
)
ErrNoSuchTable = MySQLError(1146, "42S02", "Table '%s.%s' doesn't exist")
ErrNonexistingTableGrant = MySQLError(
    1147,
    "42000",
    "There is no such grant defined for user '%s' on host '%s' on table '%s'",
)
ErrSyntax = MySQLError(
    1149,
    "42000",
    "You have an error in your SQL syntax; check the manual that corresponds to your MySQL "
    "server version for the right syntax to use",
)
ErrNetPacketTooLarge = MySQLError(
    1153,
    "08S01",
    "Got a packet bigger than 'max_allowed_packet' bytes",
)
ErrNetUncompress = MySQLError(1157, "08S01", "Couldn't uncompress communication packet")
ErrNetReadInterrupted = MySQLError(1159, "08S01", "Got timeout reading communication packets")
ErrWrongColumnName = MySQLError(1166, "42000", "Incorrect column name '%s'")
ErrWrongKeyColumn = MySQLError(1167, "42000", "The used storage engine can't index column '%s'")
ErrBlobKeyWithoutLength = MySQLError(
    1170,
    "42000",
    "BLOB/TEXT column '%s' used in key specification without a key length",
)
ErrPrimaryCantHaveNull = MySQLError(
    1171,
    "42000",
    "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE instead",
)
ErrTooManyRows = MySQLError(1172, "42000", "Result consisted of more than one row")
ErrUpdateWithoutKeyInSafeMode = MySQLError(
    1175,
    "HY000",
    "You are using safe update mode and you tried to update a table without a WHERE that uses a "
    "KEY column. ",
)
ErrKeyDoesNotExist = MySQLError(1176, "42000", "Key '%s' doesn't exist in table '%s'")
ErrCheckNoSuchTable = MySQLError(1177, "42000", "Can't open table")
# MySQL has HY000; 08007 is the standard's "transaction resolution unknown"
ErrErrorDuringCommit = MySQLError(1180, "08007", "Got error %s during COMMIT")

# -- variables, locks, prepared statements, collations, values --

ErrNewAbortingConnection = MySQLError(
    1184,
    "08S01",
    "Aborted connection %s to db: '%s' user: '%s' host: '%s' (%s)",
)
ErrFtMatchingKeyNotFound = MySQLError(
    1191, "HY000", "Can't find FULLTEXT index matching the column list"
)
ErrUnknownSystemVariable = MySQLError(1193, "HY000", "Unknown system variable '%s'")
ErrTooManyUserConnections = MySQLError(
    1203,
    "42000",
    "User %s already has more than 'max_user_connections' active connections",
)
ErrLockWaitTimeout = MySQLError(
    1205,
    "HY000",
    "Lock wait timeout exceeded; try restarting transaction",
)
ErrLockTableFull = MySQLError(
    1206, "HY000", "The total number of locks exceeds the lock table size"
)
ErrWrongArguments = MySQLError(1210, "HY000", "Incorrect arguments to %s")
ErrLockDeadlock = MySQLError(
    1213,
    "40001",
    "Deadlock found when trying to get lock; try restarting transaction",
)
ErrTableCantHandleFt = MySQLError(
    1214, "HY000", "The used table type doesn't support FULLTEXT indexes"
)
ErrCannotAddForeign = MySQLError(1215, "HY000", "Cannot add foreign key constraint")
ErrWrongUsage = MySQLError(1221, "HY000", "Incorrect usage of %s and %s")
ErrWrongNumberOfColumnsInSelect = MySQLError(
    1222,
    "21000",
    "The used SELECT statements have a different number of columns",
)
ErrSpecificAccessDenied = MySQLError(
    1227,
    "42000",
    "Access denied; you need (at least one of) the %s privilege(s) for this operation",
)
ErrLocalVariable = MySQLError(
    1228,
    "HY000",
    "Variable '%s' is a SESSION variable and can't be used with SET GLOBAL",
)
ErrGlobalVariable = MySQLError(
    1229,
    "HY000",
    "Variable '%s' is a GLOBAL variable and should be set with SET GLOBAL",
)
ErrWrongValueForVar = MySQLError(1231, "42000", "Variable '%s' can't be set to the value of '%s'")
ErrWrongTypeForVar = MySQLError(1232, "42000", "Incorrect argument type to variable '%s'")
ErrNotSupportedYet = MySQLError(1235, "42000", "This version of Exuvia doesn't yet support '%s'")
ErrIncorrectGlobalLocalVar = MySQLError(1238, "HY000", "Variable '%s' is a %s variable")
ErrWrongFkDef = MySQLError(1239, "42000", "Incorrect foreign key definition for '%s': %s")
ErrOperandColumns = MySQLError(1241, "21000", "Operand should contain %s column(s)")
ErrSubqueryNo1Row = MySQLError(1242, "21000", "Subquery returns more than 1 row")
ErrUnknownStmtHandler = MySQLError(
    1243,
    "HY000",
    "Unknown prepared statement handler (%s) given to %s",
)
ErrAutoConvert = MySQLError(1246, "HY000", "Converting column '%s' from %s to %s")
ErrDerivedMustHaveAlias = MySQLError(1248, "42000", "Every derived table must have its own alias")
ErrCollationCharsetMismatch = MySQLError(
    1253,
    "42000",
    "COLLATION '%s' is not valid for CHARACTER SET '%s'",
)
ErrCutValueGroupConcat = MySQLError(1260, "HY000", "Some rows were cut by %s")
ErrWarnTooFewRecords = MySQLError(1261, "01000", "Row %s doesn't contain data for all columns")
ErrWarnTooManyRecords = MySQLError(
    1262,
    "01000",
    "Row %s was truncated; it contained more data than there were input columns",
)
ErrWarnDataOutOfRange = MySQLError(1264, "22003", "Out of range value for column '%s' at row %s")
WarnDataTruncated = MySQLError(1265, "01000", "Data truncated for column '%s' at row %s")
WarnUsingOtherHandler = MySQLError(1266, "HY000", "Using storage engine %s for table '%s'")
ErrCantAggregate2collations = MySQLError(
    1267,
    "HY000",
    "Illegal mix of collations (%s,%s) and (%s,%s) for operation '%s'",
)
ErrUnknownCollation = MySQLError(1273, "HY000", "Unknown collation: '%s'")
ErrWrongNameForIndex = MySQLError(1280, "42000", "Incorrect index name '%s'")
ErrUnknownStorageEngine = MySQLError(1286, "42000", "Unknown storage engine '%s'")
ErrNonUpdatableTable = MySQLError(1288, "HY000", "The target table %s of the %s is not updatable")
ErrOptionPreventsStatement = MySQLError(
    1290,
    "HY000",
    "The MySQL server is running with the %s option so it cannot execute this statement",
)
ErrDuplicatedValueInType = MySQLError(1291, "HY000", "Column '%s' has duplicated value '%s' in %s")
ErrTruncatedWrongValue = MySQLError(1292, "22007", "Truncated incorrect %s value: '%s'")
ErrInvalidOnUpdate = MySQLError(1294, "HY000", "Invalid ON UPDATE clause for '%s' column")
ErrUnsupportedPs = MySQLError(
    1295,
    "HY000",
    "This command is not supported in the prepared statement protocol yet",
)
ErrUnknownTimeZone = MySQLError(1298, "HY000", "Unknown or incorrect time zone: '%s'")
ErrInvalidCharacterString = MySQLError(1300, "HY000", "Invalid %s character string: '%s'")
ErrWarnAllowedPacketOverflowed = MySQLError(
    1301,
    "HY000",
    "Result of %s() was larger than max_allowed_packet (%s) - truncated",
)

# -- routines, views, values, foreign keys --

ErrConflictingDeclarations = MySQLError(1302, "HY000", "Conflicting declarations: '%s' and '%s'")
ErrSpDoesNotExist = MySQLError(1305, "42000", "%s %s does not exist")
ErrQueryInterrupted = MySQLError(1317, "70100", "Query execution was interrupted")
ErrSpFetchNoData = MySQLError(1329, "02000", "No data - zero rows fetched, selected, or processed")
ErrViewNoExplain = MySQLError(
    1345, "HY000", "EXPLAIN/SHOW can not be issued; lacking privileges for underlying table"
)
ErrWrongObject = MySQLError(1347, "HY000", "'%s.%s' is not %s")
ErrViewSelectVariable = MySQLError(1351, "HY000", "View's SELECT contains a variable or parameter")
ErrViewSelectTmptable = MySQLError(1352, "HY000", "View's SELECT refers to a temporary table '%s'")
ErrViewWrongList = MySQLError(
    1353,
    "HY000",
    "In definition of view, derived table or common table expression, SELECT list and column "
    "names list have different column counts",
)
ErrViewInvalid = MySQLError(
    1356,
    "HY000",
    "View '%s.%s' references invalid table(s) or column(s) or function(s) or definer/invoker of "
    "view lack rights to use them",
)
ErrTrgDoesNotExist = MySQLError(1360, "HY000", "Trigger does not exist")
ErrNoDefaultForField = MySQLError(1364, "HY000", "Field '%s' doesn't have a default value")
ErrDivisionByZero = MySQLError(1365, "22012", "Division by 0")
ErrTruncatedWrongValueForField = MySQLError(
    1366,
    "HY000",
    "Incorrect %s value: '%s' for column '%s' at row %s",
)
ErrIllegalValueForType = MySQLError(1367, "22007", "Illegal %s '%s' value found during parsing")
ErrReservedSyntax = MySQLError(
    1382, "HY000", "The '%s' syntax is reserved for purposes internal to the MySQL server"
)
ErrPSManyParam = MySQLError(1390, "HY000", "Prepared statement contains too many placeholders")
ErrKeyPart0 = MySQLError(1391, "HY000", "Key part '%s' length cannot be 0")
ErrCannotUser = MySQLError(1396, "HY000", "Operation %s failed for %s")
ErrDataTooLong = MySQLError(1406, "22001", "Data too long for column '%s' at row %s")
ErrCantCreateUserWithGrant = MySQLError(
    1410,
    "42000",
    "You are not allowed to create a user with GRANT",
)
ErrWrongValueForType = MySQLError(1411, "HY000", "Incorrect %s value: '%s' for function %s")
ErrTableDefChanged = MySQLError(
    1412,
    "HY000",
    "Table definition has changed, please retry transaction",
)
ErrStmtHasNoOpenCursor = MySQLError(1421, "HY000", "The statement (%s) has no open cursor.")
ErrTooBigScale = MySQLError(
    1425,
    "42000",
    "Too big scale %s specified for column '%s'. Maximum is %s.",
)
ErrTooBigPrecision = MySQLError(
    1426,
    "42000",
    "Too-big precision %s specified for '%s'. Maximum is %s.",
)
ErrMBiggerThanD = MySQLError(
    1427,
    "42000",
    "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '%s').",
)
ErrStackOverrunNeedMore = MySQLError(
    1436,
    "HY000",
    "Thread stack overrun: the statement is nested too deeply; write it with fewer levels of"
    " parentheses, calls or subqueries",
)
ErrTooBigDisplaywidth = MySQLError(
    1439,
    "42000",
    "Display width out of range for column '%s' (max = %s)",
)
ErrDatetimeFunctionOverflow = MySQLError(1441, "22008", "Datetime function: %s field overflow")
ErrNoSuchUser = MySQLError(
    1449, "HY000", "The user specified as a definer ('%s'@'%s') does not exist"
)
ErrForbidSchemaChange = MySQLError(
    1450,
    "HY000",
    "Changing schema from '%s' to '%s' is not allowed.",
)
ErrRowIsReferenced2 = MySQLError(
    1451,
    "23000",
    "Cannot delete or update a parent row: a foreign key constraint fails (%s)",
)
ErrNoReferencedRow2 = MySQLError(
    1452,
    "23000",
    "Cannot add or update a child row: a foreign key constraint fails (%s)",
)
ErrMaxPreparedStmtCountReached = MySQLError(
    1461,
    "42000",
    "Can't create more than max_prepared_stmt_count statements (current value: %s)",
)
ErrViewRecursive = MySQLError(1462, "HY000", "`%s`.`%s` contains view recursion")
ErrAutoincReadFailed = MySQLError(
    1467,
    "HY000",
    "Failed to read auto-increment value from storage engine",
)
ErrWrongStringLength = MySQLError(
    1470,
    "HY000",
    "String '%s' is too long for %s (should be no longer than %s)",
)

# -- partitions --

ErrPartitionRequiresValues = MySQLError(
    1479,
    "HY000",
    "Syntax : %s PARTITIONING requires definition of VALUES %s for each partition",
)
ErrPartitionWrongValues = MySQLError(
    1480,
    "HY000",
    "Only %s PARTITIONING can use VALUES %s in partition definition",
)
ErrPartitionMaxvalue = MySQLError(
    1481,
    "HY000",
    "MAXVALUE can only be used in last partition definition",
)
ErrPartitionWrongNoPart = MySQLError(
    1484,
    "HY000",
    "Wrong number of partitions defined, mismatch with previous setting",
)
ErrWrongExprInPartitionFunc = MySQLError(
    1486,
    "HY000",
    "Constant, random or timezone-dependent expressions in (sub)partitioning function are not "
    "allowed",
)
ErrFieldNotFoundPart = MySQLError(
    1488,
    "HY000",
    "Field in list of fields for partition function not found in table",
)
ErrPartitionFuncNotAllowed = MySQLError(1491, "HY000", "The %s function returns the wrong type")
ErrPartitionsMustBeDefined = MySQLError(
    1492,
    "HY000",
    "For %s partitions each partition must be defined",
)
ErrRangeNotIncreasing = MySQLError(
    1493,
    "HY000",
    "VALUES LESS THAN value must be strictly increasing for each partition",
)
ErrMultipleDefConstInListPart = MySQLError(
    1495,
    "HY000",
    "Multiple definition of same constant in list partitioning",
)
ErrTooManyPartitions = MySQLError(
    1499,
    "HY000",
    "Too many partitions (including subpartitions) were defined",
)
ErrSubpartition = MySQLError(
    1500,
    "HY000",
    "It is only possible to mix RANGE/LIST partitioning with HASH/KEY partitioning for "
    "subpartitioning",
)
ErrUniqueKeyNeedAllFieldsInPf = MySQLError(
    1503,
    "HY000",
    "A %s must include all columns in the table's partitioning function",
)
ErrNoParts = MySQLError(1504, "HY000", "Number of %s = 0 is not an allowed value")
ErrPartitionMgmtOnNonpartitioned = MySQLError(
    1505,
    "HY000",
    "Partition management on a not partitioned table is not possible",
)
ErrForeignKeyOnPartitioned = MySQLError(
    1506,
    "HY000",
    "Foreign key clause is not yet supported in conjunction with partitioning",
)
ErrDropPartitionNonExistent = MySQLError(1507, "HY000", "Error in list of partitions to %s")
ErrDropLastPartition = MySQLError(
    1508,
    "HY000",
    "Cannot remove all partitions, use DROP TABLE instead",
)
ErrCoalesceOnlyOnHashPartition = MySQLError(
    1509,
    "HY000",
    "COALESCE PARTITION can only be used on HASH/KEY partitions",
)
ErrOnlyOnRangeListPartition = MySQLError(
    1512,
    "HY000",
    "%s PARTITION can only be used on RANGE/LIST partitions",
)
ErrCoalescePartitionNoPartition = MySQLError(
    1515,
    "HY000",
    "At least one partition must be coalesced",
)
ErrSameNamePartition = MySQLError(1517, "HY000", "Duplicate partition name %s")

# -- more of partitions, functions, comments --

ErrPluginIsNotLoaded = MySQLError(1524, "HY000", "Plugin '%s' is not loaded")
ErrWrongValue = MySQLError(1525, "HY000", "Incorrect %s value: '%s'")
ErrNoPartitionForGivenValue = MySQLError(1526, "HY000", "Table has no partition for value %s")
ErrEventDoesNotExist = MySQLError(1539, "HY000", "Unknown event '%s'")
ErrDropIndexNeededInForeignKey = MySQLError(
    1553,
    "HY000",
    "Cannot drop index '%s': needed in a foreign key constraint",
)
ErrPartitionNoTemporary = MySQLError(1562, "HY000", "Cannot create temporary table with partitions")
ErrPartitionConstDomain = MySQLError(
    1563,
    "HY000",
    "Partition constant is out of partition function domain",
)
ErrPartitionFunctionIsNotAllowed = MySQLError(
    1564,
    "HY000",
    "This partition function is not allowed",
)
ErrNullInValuesLessThan = MySQLError(
    1566,
    "HY000",
    "Not allowed to use NULL value in VALUES LESS THAN",
)
ErrWrongPartitionName = MySQLError(1567, "HY000", "Incorrect partition name")
ErrCantChangeTxCharacteristics = MySQLError(
    1568,
    "25001",
    "Transaction characteristics can't be changed while a transaction is in progress",
)
ErrWrongParamcountToNativeFct = MySQLError(
    1582,
    "42000",
    "Incorrect parameter count in the call to native function '%s'",
)
WarnOptionIgnored = MySQLError(1618, "HY000", "<%s> option ignored")
ErrTooLongTableComment = MySQLError(1628, "HY000", "Comment for table '%s' is too long (max = %s)")
ErrTooLongFieldComment = MySQLError(1629, "HY000", "Comment for field '%s' is too long (max = %s)")
ErrTooManyConcurrentTrxs = MySQLError(1637, "HY000", "Too many active concurrent transactions: %s")
ErrUnknownLocale = MySQLError(1649, "HY000", "Unknown locale: '%s'")
ErrSameNamePartitionField = MySQLError(1652, "HY000", "Duplicate partition field name '%s'")
ErrPartitionColumnList = MySQLError(
    1653,
    "HY000",
    "Inconsistency in usage of column lists for partitioning",
)
ErrWrongTypeColumnValue = MySQLError(1654, "HY000", "Partition column values of incorrect type")
ErrTooManyPartitionFuncFields = MySQLError(1655, "HY000", "Too many fields in '%s'")
ErrMaxvalueInValuesIn = MySQLError(1656, "HY000", "Cannot use MAXVALUE as value in VALUES IN")
ErrTooManyValues = MySQLError(
    1657,
    "HY000",
    "Cannot have more than one value for this type of %s partitioning",
)
ErrRowSinglePartitionField = MySQLError(
    1658,
    "HY000",
    "Row expressions in VALUES IN only allowed for multi-field column partitioning",
)
ErrFieldTypeNotAllowedAsPartitionField = MySQLError(
    1659,
    "HY000",
    "Field '%s' is of a not allowed type for this type of partitioning",
)
ErrBinlogUnsafeSystemFunction = MySQLError(
    1674,
    "HY000",
    "Statement is unsafe because it uses a system function that may return a different value on "
    "the slave",
)
ErrWarnDeprecatedSyntaxNoReplacement = MySQLError(
    1681, "HY000", "'%s' is accepted and has no effect: %s"
)
ErrTooLongIndexComment = MySQLError(1688, "HY000", "Comment for index '%s' is too long (max = %s)")

# -- exchange of partitions, alteration of foreign keys --

ErrDataOutOfRange = MySQLError(1690, "22003", "%s value is out of range in '%s'")
ErrValuesIsNotIntType = MySQLError(
    1697,
    "HY000",
    "VALUES value for partition '%s' must have type INT",
)
ErrTruncateIllegalForeignKey = MySQLError(
    1701,
    "42000",
    "Cannot truncate a table referenced in a foreign key constraint (%s)",
)
ErrMultiUpdateKeyConflict = MySQLError(
    1706,
    "HY000",
    "Primary key/partition key update is not allowed since the table is updated both as '%s' and "
    "'%s'.",
)
ErrPartitionExchangeDifferentOption = MySQLError(
    1731, "HY000", "Non matching attribute '%s' between partition and table"
)
ErrPartitionExchangePartTable = MySQLError(
    1732,
    "HY000",
    "Table to exchange with partition is partitioned: '%s'",
)
ErrPartitionExchangeTempTable = MySQLError(
    1733, "HY000", "Table to exchange with partition is temporary: '%s'"
)
ErrUnknownPartition = MySQLError(1735, "HY000", "Unknown partition '%s' in table '%s'")
ErrTablesDifferentMetadata = MySQLError(1736, "HY000", "Tables have different definitions")
ErrRowDoesNotMatchPartition = MySQLError(
    1737,
    "HY000",
    "Found a row that does not match the partition",
)
ErrPartitionExchangeForeignKey = MySQLError(
    1740,
    "HY000",
    "Table to exchange with partition has foreign key references: '%s'",
)
ErrPartitionClauseOnNonpartitioned = MySQLError(
    1747,
    "HY000",
    "PARTITION () clause on non partitioned table",
)
ErrRowDoesNotMatchGivenPartitionSet = MySQLError(
    1748,
    "HY000",
    "Found a row not matching the given partition set",
)
ErrUnknownExplainFormat = MySQLError(1791, "HY000", "Unknown EXPLAIN format name: '%s'")
ErrCantExecuteInReadOnlyTransaction = MySQLError(
    1792,
    "25006",
    "Cannot execute statement in a READ ONLY transaction.",
)
ErrUnknownAlterAlgorithm = MySQLError(1800, "HY000", "Unknown ALGORITHM '%s'")
ErrUnknownAlterLock = MySQLError(1801, "HY000", "Unknown LOCK type '%s'")
ErrInvalidYearColumnLength = MySQLError(1818, "HY000", "Supports only YEAR or YEAR(4) column.")
ErrNotValidPassword = MySQLError(
    1819, "HY000", "Your password does not satisfy the current policy requirements (%s)"
)
ErrMustChangePassword = MySQLError(
    1820,
    "HY000",
    "You must reset your password using ALTER USER statement before executing this statement.",
)
ErrForeignKeyNoIndexInParent = MySQLError(
    1822,
    "HY000",
    "Failed to add the foreign key constraint. Missing index for constraint '%s' in the "
    "referenced table '%s'",
)
ErrForeignKeyCannotOpenParent = MySQLError(
    1824,
    "HY000",
    "Failed to open the referenced table '%s'",
)
ErrFkDupName = MySQLError(1826, "HY000", "Duplicate foreign key constraint name '%s'")
ErrPasswordFormat = MySQLError(
    1827,
    "HY000",
    "The password hash doesn't have the expected format. Check if the correct password algorithm "
    "is being used with the PASSWORD() function.",
)
ErrFkColumnCannotDrop = MySQLError(
    1828,
    "HY000",
    "Cannot drop column '%s': needed in a foreign key constraint '%s'",
)
ErrFkColumnCannotDropChild = MySQLError(
    1829,
    "HY000",
    "Cannot drop column '%s': needed in a foreign key constraint '%s' of table '%s'",
)
ErrForeignKeyColumnNotNull = MySQLError(
    1830,
    "HY000",
    "Column '%s' cannot be NOT NULL: needed in a foreign key constraint '%s' SET NULL",
)
ErrForeignKeyColumnCannotChange = MySQLError(
    1832,
    "HY000",
    "Cannot change column '%s': used in a foreign key constraint '%s'",
)
ErrForeignKeyColumnCannotChangeChild = MySQLError(
    1833,
    "HY000",
    "Cannot change column '%s': used in a foreign key constraint '%s' of table '%s'",
)
ErrMalformedPacket = MySQLError(1835, "HY000", "Malformed communication packet.")
ErrSQLInReadOnlyMode = MySQLError(1836, "HY000", "Running in read-only mode")
ErrAlterOperationNotSupportedReason = MySQLError(
    1846, "0A000", "%s is not supported. Reason: %s. Try %s."
)
ErrMustChangePasswordLogin = MySQLError(
    1862,
    "HY000",
    "Your password has expired. To log in you must change it using a client that supports "
    "expired passwords.",
)
ErrAesInvalidIv = MySQLError(
    1882,
    "HY000",
    "The initialization vector supplied to %s is too short. Must be at least %s bytes long",
)
ErrConnectionKilled = MySQLError(1927, "70100", "Connection was killed")

# -- MySQL 8: generated columns, JSON, expression indexes, CHECK --

ErrForeignKeyCascadeDepthExceeded = MySQLError(
    3008,
    "HY000",
    "Foreign key cascade delete/update exceeds max depth of %s.",
)
ErrInvalidFieldSize = MySQLError(3013, "HY000", "Invalid size for column '%s'.")
ErrPasswordExpireAnonymousUser = MySQLError(
    3016, "HY000", "The password for anonymous user cannot be expired."
)
ErrMaxExecTimeExceeded = MySQLError(
    3024,
    "HY000",
    "Query execution was interrupted, maximum statement execution time exceeded",
)
ErrAggregateOrderForUnion = MySQLError(
    3028,
    "HY000",
    "Expression #%s of ORDER BY contains aggregate function and applies to the result of a UNION",
)
ErrUserLockWrongName = MySQLError(3057, "42000", "Incorrect user-level lock name '%s'.")
ErrUserLockDeadlock = MySQLError(
    3058,
    "HY000",
    "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing "
    "locks and restarting lock acquisition.",
)
ErrIncorrectType = MySQLError(3064, "HY000", "Incorrect type for argument %s in function %s.")
ErrFieldInOrderNotSelect = MySQLError(
    3065,
    "HY000",
    "Expression #%s of ORDER BY clause is not in SELECT list, references column '%s' which is not "
    "in SELECT list; this is incompatible with %s",
)
ErrAggregateInOrderNotSelect = MySQLError(
    3066,
    "HY000",
    "Expression #%s of ORDER BY clause is not in SELECT list, contains aggregate function; this is "
    "incompatible with %s",
)
ErrGeneratedColumnFunctionIsNotAllowed = MySQLError(
    3102,
    "HY000",
    "Expression of generated column '%s' contains a disallowed function.",
)
ErrWrongFKOptionForGeneratedColumn = MySQLError(
    3104,
    "HY000",
    "Cannot define foreign key with %s clause on a generated column.",
)
ErrBadGeneratedColumn = MySQLError(
    3105,
    "HY000",
    "The value specified for generated column '%s' in table '%s' is not allowed.",
)
ErrUnsupportedOnGeneratedColumn = MySQLError(
    3106,
    "HY000",
    "'%s' is not supported for generated columns.",
)
ErrGeneratedColumnNonPrior = MySQLError(
    3107,
    "HY000",
    "Generated column can refer only to generated columns defined prior to it.",
)
ErrDependentByGeneratedColumn = MySQLError(
    3108,
    "HY000",
    "Column '%s' has a generated column dependency.",
)
ErrGeneratedColumnRefAutoInc = MySQLError(
    3109,
    "HY000",
    "Generated column '%s' cannot refer to auto-increment column.",
)
ErrAccountHasBeenLocked = MySQLError(
    3118,
    "HY000",
    "Access denied for user '%s'@'%s'. Account is locked.",
)
ErrWarnConflictingHint = MySQLError(3126, "HY000", "Hint %s is ignored as conflicting/duplicated.")
ErrUnresolvedHintName = MySQLError(3128, "HY000", "Unresolved name '%s' for %s hint")
ErrInvalidJSONText = MySQLError(3140, "22032", "Invalid JSON text: %s")
ErrInvalidJSONPath = MySQLError(
    3143,
    "42000",
    "Invalid JSON path expression. The error is around character position %s.",
)
ErrInvalidTypeForJSON = MySQLError(
    3146,
    "22032",
    "Invalid data type for JSON data in argument %s to function %s; a JSON string or JSON type "
    "is required.",
)
ErrInvalidJSONPathMultipleSelection = MySQLError(
    3149,
    "42000",
    "In this situation, path expressions may not contain the * and ** tokens or an array range.",
)
ErrJSONValueTooBig = MySQLError(
    3150,
    "22032",
    "The JSON value is too big to be stored in a JSON column.",
)
ErrJSONUsedAsKey = MySQLError(
    3152,
    "42000",
    "JSON column '%s' cannot be used in key specification.",
)
ErrJSONVacuousPath = MySQLError(
    3153,
    "42000",
    "The path expression '$' is not allowed in this context.",
)
ErrJSONBadOneOrAllArg = MySQLError(
    3154,
    "42000",
    "The oneOrAll argument to json_search may take these values: 'one' or 'all'.",
)
ErrJSONDocumentTooDeep = MySQLError(3157, "22032", "The JSON document exceeds the maximum depth.")
ErrJSONDocumentNULLKey = MySQLError(
    3158,
    "22032",
    "JSON documents may not contain NULL member names.",
)
ErrSecureTransportRequired = MySQLError(
    3159,
    "HY000",
    "Connections using insecure transport are prohibited while --require_secure_transport=ON.",
)
ErrBadUser = MySQLError(3162, "HY000", "User %s does not exist.")
ErrUserAlreadyExists = MySQLError(3163, "HY000", "User %s already exists.")
ErrInvalidJSONPathArrayCell = MySQLError(
    3165,
    "42000",
    "A path expression is not a path to a cell in an array.",
)
ErrCapacityExceeded = MySQLError(3170, "HY000", "Capacity of %s for '%s' exceeded. %s")
ErrPKIndexCantBeInvisible = MySQLError(3522, "HY000", "A primary key index cannot be invisible")
ErrGrantRole = MySQLError(3523, "HY000", "Unknown authorization ID %s")
ErrRoleNotGranted = MySQLError(3530, "HY000", "%s is not granted to %s")
ErrLockAcquireFailAndNoWaitSet = MySQLError(
    3572,
    "HY000",
    "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.",
)
ErrWindowNoSuchWindow = MySQLError(3579, "HY000", "Window name '%s' is not defined.")
ErrWindowCircularityInWindowGraph = MySQLError(
    3580,
    "HY000",
    "There is a circularity in the window dependency graph.",
)
ErrWindowNoChildPartitioning = MySQLError(
    3581,
    "HY000",
    "A window which depends on another cannot define partitioning.",
)
ErrWindowNoInheritFrame = MySQLError(
    3582,
    "HY000",
    "Window '%s' has a frame definition, so cannot be referenced by another window.",
)
ErrWindowNoRedefineOrderBy = MySQLError(
    3583,
    "HY000",
    "Window '%s' cannot inherit '%s' since both contain an ORDER BY clause.",
)
ErrWindowFrameStartIllegal = MySQLError(
    3584,
    "HY000",
    "Window '%s': frame start cannot be UNBOUNDED FOLLOWING.",
)
ErrWindowFrameEndIllegal = MySQLError(
    3585,
    "HY000",
    "Window '%s': frame end cannot be UNBOUNDED PRECEDING.",
)
ErrWindowFrameIllegal = MySQLError(
    3586,
    "HY000",
    "Window '%s': frame start or end is negative, NULL or of non-integral type",
)
ErrWindowRangeFrameOrderType = MySQLError(
    3587,
    "HY000",
    "Window '%s' with RANGE N PRECEDING/FOLLOWING frame requires exactly one ORDER BY expression, "
    "of numeric or temporal type",
)
ErrWindowRangeFrameTemporalType = MySQLError(
    3588,
    "HY000",
    "Window '%s' with RANGE frame has ORDER BY expression of datetime type. Only INTERVAL bound "
    "value allowed.",
)
ErrWindowRangeFrameNumericType = MySQLError(
    3589,
    "HY000",
    "Window '%s' with RANGE frame has ORDER BY expression of numeric type, INTERVAL bound value "
    "not allowed.",
)
ErrWindowRangeBoundNotConstant = MySQLError(
    3590,
    "HY000",
    "Window '%s' has a non-constant frame bound.",
)
ErrWindowDuplicateName = MySQLError(3591, "HY000", "Window '%s' is defined twice.")
ErrWindowIllegalOrderBy = MySQLError(
    3592,
    "HY000",
    "Window '%s': ORDER BY or PARTITION BY uses legacy position indication which is not supported, "
    "use expression.",
)
ErrWindowInvalidWindowFuncUse = MySQLError(
    3593,
    "HY000",
    "You cannot use the window function '%s' in this context.",
)
ErrWindowRowsIntervalUse = MySQLError(
    3596,
    "HY000",
    "Window '%s': INTERVAL can only be used with RANGE frames.",
)
ErrFieldInGroupingNotGroupBy = MySQLError(
    3602,
    "HY000",
    "Argument #%s of GROUPING function is not in GROUP BY",
)
ErrIllegalPrivilegeLevel = MySQLError(3619, "HY000", "Illegal privilege level specified for %s")
ErrCTEMaxRecursionDepth = MySQLError(
    3636,
    "HY000",
    "Recursive query aborted after %s iterations. Try increasing @@cte_max_recursion_depth to a "
    "larger value",
)
ErrNotHintUpdatable = MySQLError(3637, "HY000", "Variable '%s' cannot be set using SET_VAR hint.")
ErrExistsInHistoryPassword = MySQLError(
    3638,
    "HY000",
    "Cannot use these credentials for '%s@%s' because they contradict the password history policy.",
)
ErrRegexpTimeOut = MySQLError(3699, "HY000", "Timeout exceeded in regular expression match.")
ErrForeignKeyCannotDropParent = MySQLError(
    3730,
    "HY000",
    "Cannot drop table '%s' referenced by a foreign key constraint '%s' on table '%s'.",
)
ErrForeignKeyCannotUseVirtualColumn = MySQLError(
    3733,
    "HY000",
    "Foreign key '%s' uses virtual column '%s' which is not supported.",
)
ErrForeignKeyNoColumnInParent = MySQLError(
    3734,
    "HY000",
    "Failed to add the foreign key constraint. Missing column '%s' for constraint '%s' in the "
    "referenced table '%s'",
)
ErrTableWithoutPrimaryKey = MySQLError(
    3750,
    "HY000",
    "Unable to create or change a table without a primary key, when the system variable "
    "'sql_require_primary_key' is set. Add a primary key to the table or unset this variable to "
    "avoid this message. Note that tables without a primary key can cause performance problems in "
    "row-based replication, so please consult your DBA before changing this setting.",
)
ErrWarnDataOutOfRangeFunctionalIndex = MySQLError(
    3752, "22003", "Value is out of range for expression index '%s' at row %s"
)
ErrFunctionalIndexOnJSONOrGeometryFunction = MySQLError(
    3753,
    "HY000",
    "Cannot create an expression index on a function that returns a JSON or GEOMETRY value",
)
ErrFunctionalIndexRefAutoIncrement = MySQLError(
    3754,
    "HY000",
    "Expression index '%s' cannot refer to an auto-increment column",
)
ErrFunctionalIndexPrimaryKey = MySQLError(
    3756,
    "HY000",
    "The primary key cannot be an expression index",
)
ErrFunctionalIndexOnBlob = MySQLError(
    3757,
    "HY000",
    "Cannot create an expression index on an expression that returns a BLOB or TEXT. Please "
    "consider using CAST",
)
ErrFunctionalIndexFunctionIsNotAllowed = MySQLError(
    3758,
    "HY000",
    "Expression of expression index '%s' contains a disallowed function.",
)
ErrWrongKeyColumnFunctionalIndex = MySQLError(
    3761,
    "HY000",
    "The used storage engine cannot index the expression '%s'",
)
ErrFunctionalIndexOnField = MySQLError(
    3762,
    "HY000",
    "Expression index on a column is not supported. Consider using a regular index instead",
)
ErrGeneratedColumnRowValueIsNotAllowed = MySQLError(
    3764,
    "HY000",
    "Expression of generated column '%s' cannot refer to a row value.",
)
ErrDefValGeneratedNamedFunctionIsNotAllowed = MySQLError(
    3770,
    "HY000",
    "Default value expression of column '%s' contains a disallowed function: `%s`.",
)
ErrFKIncompatibleColumns = MySQLError(
    3780,
    "HY000",
    "Referencing column '%s' and referenced column '%s' in foreign key constraint '%s' are "
    "incompatible.",
)
ErrFunctionalIndexRowValueIsNotAllowed = MySQLError(
    3800,
    "HY000",
    "Expression of expression index '%s' cannot refer to a row value",
)
ErrNonBooleanExprForCheckConstraint = MySQLError(
    3812,
    "HY000",
    "An expression of non-boolean type specified to a check constraint '%s'.",
)
ErrColumnCheckConstraintReferencesOtherColumn = MySQLError(
    3813,
    "HY000",
    "Column check constraint '%s' references other column.",
)
ErrCheckConstraintNamedFunctionIsNotAllowed = MySQLError(
    3814,
    "HY000",
    "An expression of a check constraint '%s' contains disallowed function: %s.",
)
ErrCheckConstraintFunctionIsNotAllowed = MySQLError(
    3815,
    "HY000",
    "An expression of a check constraint '%s' contains disallowed function.",
)
ErrCheckConstraintVariables = MySQLError(
    3816,
    "HY000",
    "An expression of a check constraint '%s' cannot refer to a user or system variable.",
)
ErrCheckConstraintRefersAutoIncrementColumn = MySQLError(
    3818,
    "HY000",
    "Check constraint '%s' cannot refer to an auto-increment column.",
)
ErrCheckConstraintViolated = MySQLError(3819, "HY000", "Check constraint '%s' is violated.")
ErrTableCheckConstraintReferUnknown = MySQLError(
    3820,
    "HY000",
    "Check constraint '%s' refers to non-existing column '%s'.",
)
ErrCheckConstraintDupName = MySQLError(3822, "HY000", "Duplicate check constraint name '%s'.")
ErrCheckConstraintClauseUsingFKReferActionColumn = MySQLError(
    3823,
    "HY000",
    "Column '%s' cannot be used in a check constraint '%s': needed in a foreign key constraint "
    "referential action.",
)
ErrDependentByFunctionalIndex = MySQLError(
    3837,
    "HY000",
    "Column '%s' has an expression index dependency and cannot be dropped or renamed",
)
ErrDependentByPartitionFunctional = MySQLError(
    3855,
    "HY000",
    "Column '%s' has a partitioning function dependency and cannot be dropped or renamed",
)
ErrInvalidJSONValueForFuncIndex = MySQLError(
    3903, "22018", "Invalid JSON value for CAST for expression index '%s'"
)
ErrExceededMVKeysNum = MySQLError(
    3905,
    "HY000",
    "Exceeded max number of values per record for multi-valued index '%s' by %s value(s).",
)
ErrFunctionalIndexDataIsTooLong = MySQLError(
    3907, "22001", "Data too long for expression index '%s'"
)
ErrDynamicPrivilegeNotRegistered = MySQLError(
    3929,
    "HY000",
    "Dynamic privilege '%s' is not registered with the server.",
)
ErrMultipleConstraintsWithSameName = MySQLError(
    3939,
    "HY000",
    "Table has multiple constraints with the name '%s'. Please use constraint specific 'DROP' "
    "clause.",
)
ErrConstraintNotFound = MySQLError(3940, "HY000", "Constraint '%s' does not exist.")
ErrClientLocalFilesDisabled = MySQLError(
    3948,
    "42000",
    "Loading local data is disabled; this must be enabled on both the client and server sides",
)
ErrUserAccessDeniedForUserAccountBlockedByPasswordLock = MySQLError(
    3955,
    "HY000",
    "Access denied for user '%s'@'%s'. Account is blocked for %s day(s) (%s day(s) remaining) "
    "due to %s consecutive failed logins.",
)
ErrDependentByCheckConstraint = MySQLError(
    3959,
    "HY000",
    "Check constraint '%s' uses column '%s', hence column cannot be dropped or renamed.",
)

# -- idle clients; sequences, as MariaDB numbers them --

ErrClientInteractionTimeout = MySQLError(
    4031,
    "HY000",
    "The client was disconnected by the server because of inactivity. See wait_timeout and "
    "interactive_timeout for configuring this behavior.",
)
ErrSequenceRunOut = MySQLError(4135, "HY000", "Sequence '%s' has run out")
ErrSequenceInvalidData = MySQLError(4136, "HY000", "Sequence '%s' values are conflicting")
ErrUnknownSequence = MySQLError(4139, "HY000", "Unknown SEQUENCE: '%s'")

# -- TiDB: transactions, statistics --

ErrTxnTooLarge = MySQLError(8004, "HY000", "Transaction is too large, size: %s")
ErrOptOnTemporaryTable = MySQLError(8006, "HY000", "`%s` is unsupported on temporary tables.")
ErrDropTableOnTemporaryTable = MySQLError(
    8007, "HY000", "`drop global temporary table` can only drop global temporary table"
)
ErrTxnRetryable = MySQLError(8022, "HY000", "Error: KV error safe to retry %s  [try again later]")
ErrEntryTooLarge = MySQLError(
    8025,
    "HY000",
    "entry too large, the max entry size is %s, the size of data is %s",
)
ErrInfoSchemaExpired = MySQLError(
    8027,
    "HY000",
    "Information schema is out of date: schema failed to update in 1 lease, please make sure the "
    "server can connect to the store",
)
ErrInfoSchemaChanged = MySQLError(
    8028,
    "HY000",
    "Information schema is changed during the execution of the statement(for example, table "
    "definition may be updated by other DDL ran in parallel). If you see this error often, try "
    "increasing `tidb_max_delta_schema_count`. [try again later]",
)
ErrUnsupportedIsolationLevel = MySQLError(
    8048,
    "HY000",
    "The isolation level '%s' is not supported. Set tidb_skip_isolation_level_check=1 to skip "
    "this error",
)
ErrSnapshotTooOld = MySQLError(8055, "HY000", "snapshot is too old: %s")
ErrAutoRandReadFailed = MySQLError(
    8059, "HY000", "Failed to read auto-random value from storage engine"
)
ErrWarnOptimizerHintUnsupportedHint = MySQLError(
    8061, "HY000", "Optimizer hint %s is not supported by TiDB and is ignored"
)
ErrAnalyzeMissIndex = MySQLError(
    8109,
    "HY000",
    "Index '%s' in field list does not exist in table '%s'",
)
ErrAsOf = MySQLError(8135, "HY000", "invalid as of timestamp: %s")
ErrAnalyzeMissColumn = MySQLError(
    8137,
    "HY000",
    "Column '%s' in ANALYZE column option does not exist in table '%s'",
)
ErrNonTransactionalJobFailure = MySQLError(
    8143,
    "HY000",
    "non-transactional job failed, job id: %s, total jobs: %s. job range: [%s, %s], job sql: %s, "
    "err: %s",
)
ErrUnsupportedColumnInTTLConfig = MySQLError(
    8148,
    "HY000",
    "Field '%s' is of a not supported type for TTL config, expect DATETIME, DATE or TIMESTAMP",
)
ErrTTLColumnCannotDrop = MySQLError(8149, "HY000", "Cannot drop column '%s': needed in TTL config")
ErrSetTTLOptionForNonTTLTable = MySQLError(
    8150, "HY000", "Cannot set %s on a table without TTL config"
)
ErrTempTableNotAllowedWithTTL = MySQLError(
    8151, "HY000", "Set TTL for temporary table is not allowed"
)
ErrUnsupportedTTLReferencedByFK = MySQLError(
    8152, "HY000", "Set TTL for a table referenced by foreign key is not allowed"
)
ErrUnsupportedPrimaryKeyTypeWithTTL = MySQLError(
    8153, "HY000", "Unsupported clustered primary key type FLOAT/DOUBLE for TTL"
)
ErrLoadDataUnsupportedFormat = MySQLError(8157, "HY000", "The FORMAT '%s' is not supported")
ErrLoadDataCantRead = MySQLError(8160, "HY000", "Failed to read source files. Reason: %s. %s")
ErrUnknownOption = MySQLError(8163, "HY000", "Unknown option %s")
ErrInvalidOptionVal = MySQLError(8164, "HY000", "Invalid option value for %s")
ErrDuplicateOption = MySQLError(8165, "HY000", "Option %s specified more than once")
ErrLoadDataUnsupportedOption = MySQLError(8166, "HY000", "Unsupported option %s for %s")
ErrLoadDataJobNotFound = MySQLError(8170, "HY000", "Job ID %s doesn't exist")
ErrLoadDataInvalidOperation = MySQLError(
    8171,
    "HY000",
    "The current job status cannot perform the operation. %s",
)
ErrLoadDataPreCheckFailed = MySQLError(8173, "HY000", "PreCheck failed: %s")
ErrMemoryExceedForQuery = MySQLError(
    8175,
    "HY000",
    "Your query has been cancelled due to exceeding the allowed memory limit for a single SQL "
    "query. Please try narrowing your query scope or increase the tidb_mem_quota_query limit and "
    "try again.[conn=%s]",
)

ErrMemoryExceedForInstance = MySQLError(
    8176,
    "HY000",
    "Your query has been cancelled due to exceeding the allowed memory limit for the tidb-server "
    "instance and this query is currently using the most memory. Please try narrowing your query "
    "scope or increase the tidb_server_memory_limit and try again.[conn=%s]",
)

# -- TiDB: schema changes --

ErrUnsupportedDDLOperation = MySQLError(8200, "HY000", "Unsupported %s")
ErrCancelledDDLJob = MySQLError(8214, "HY000", "Cancelled DDL job")
ErrRepairTable = MySQLError(8215, "HY000", "Failed to repair table: %s")
ErrInvalidAutoRandom = MySQLError(8216, "HY000", "Invalid auto random: %s")
ErrDataInconsistent = MySQLError(
    8223,
    "HY000",
    "data inconsistency in table: %s, index: %s, handle: %s, index-values:%s != record-values:%s",
)
ErrDDLJobNotFound = MySQLError(8224, "HY000", "DDL Job:%s not found")
ErrCancelFinishedDDLJob = MySQLError(
    8225,
    "HY000",
    "This job:%s is finished, so can't be cancelled",
)
ErrCannotCancelDDLJob = MySQLError(
    8226,
    "HY000",
    "This job:%s is almost finished, can't be cancelled now",
)
ErrSequenceUnsupportedTableOption = MySQLError(
    8227, "HY000", "Unsupported sequence table-option %s"
)
ErrColumnTypeUnsupportedNextValue = MySQLError(
    8228,
    "HY000",
    "Unsupported sequence default value for column type '%s'",
)
ErrAddColumnWithSequenceAsDefault = MySQLError(
    8230,
    "HY000",
    "Unsupported using sequence as default value in add column '%s'",
)
ErrTableOptionUnionUnsupported = MySQLError(
    8232,
    "HY000",
    "CREATE/ALTER table with union option is not supported",
)
ErrTableOptionInsertMethodUnsupported = MySQLError(
    8233,
    "HY000",
    "CREATE/ALTER table with insert method option is not supported",
)
ErrInvalidAttributesSpec = MySQLError(8237, "HY000", "Invalid attributes: %s")
ErrPlacementPolicyExists = MySQLError(8238, "HY000", "Placement policy '%s' already exists")
ErrPlacementPolicyNotExists = MySQLError(8239, "HY000", "Unknown placement policy '%s'")
ErrPlacementPolicyInUse = MySQLError(8241, "HY000", "Placement policy '%s' is still in use")
ErrOptOnCacheTable = MySQLError(8242, "HY000", "'%s' is unsupported on cache tables.")
ErrDDLSetting = MySQLError(8246, "HY000", "Error happened when %s DDL: %s")
ErrResourceGroupExists = MySQLError(8248, "HY000", "Resource group '%s' already exists")
ErrResourceGroupNotExists = MySQLError(8249, "HY000", "Unknown resource group '%s'")
ErrResourceGroupSupportDisabled = MySQLError(
    8250,
    "HY000",
    "Resource control feature is disabled. Run `SET GLOBAL tidb_enable_resource_control='on'` "
    "to enable the feature",
)
ErrProtectedTableMode = MySQLError(8258, "HY000", "Table %s is in mode %s")
ErrCannotPauseDDLJob = MySQLError(8260, "HY000", "Job [%s] can't be paused: %s")
ErrCannotResumeDDLJob = MySQLError(8261, "HY000", "Job [%s] can't be resumed: %s")
ErrPausedDDLJob = MySQLError(8262, "HY000", "Job [%s] has already been paused")
ErrBDRRestrictedDDL = MySQLError(
    8263,
    "HY000",
    "The operation is not allowed while the bdr role of this cluster is set to %s.",
)
ErrGlobalIndexNotExplicitlySet = MySQLError(
    8264,
    "HY000",
    "Global Index is needed for index '%s', since the unique index is not including all "
    "partitioning columns, and GLOBAL is not given as IndexOption",
)
ErrInvalidTableAffinity = MySQLError(8266, "HY000", "%s")
ErrForbiddenDDL = MySQLError(8267, "HY000", "%s is forbidden")
ErrModifyColumnReferencedByPartialCondition = MySQLError(
    8272,
    "HY000",
    "Cannot drop, change or modify column '%s': it is referenced in partial index '%s'",
)

# -- TiDB: storage --

ErrWriteConflict = MySQLError(9007, "HY000", "Write conflict, %s [try again later]")
