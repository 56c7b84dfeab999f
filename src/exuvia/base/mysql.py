"""MySQL's error codes: SQLSTATE and text, as users of MySQL 8 and TiDB know them.

`refuse(1146, "test", "t")` gives the Refused to raise. The texts are templates of `%s` in the
order of the manuals they come from. Codes from 3000 on, MySQL 8's and TiDB's own, are in
mysql_newer.py.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_accounts import ACCOUNTS
from exuvia.base.mysql_constraints import CONSTRAINTS
from exuvia.base.mysql_newer import NEWER

_ERRORS: dict[int, tuple[str, str]] = {
    1007: ("HY000", "Can't create database '%s'; database exists"),
    1008: ("HY000", "Can't drop database '%s'; database doesn't exist"),
    1021: ("HY000", "Disk full (%s); waiting for someone to free some space..."),
    1025: ("HY000", "Error on rename of '%s' to '%s' (errno: %s - %s)"),
    1040: ("08004", "Too many connections"),
    1043: ("08S01", "Bad handshake"),
    1044: ("42000", "Access denied for user '%s'@'%s' to database '%s'"),
    1046: ("3D000", "No database selected"),
    1047: ("08S01", "Unknown command"),
    1048: ("23000", "Column '%s' cannot be null"),
    1049: ("42000", "Unknown database '%s'"),
    1050: ("42S01", "Table '%s' already exists"),
    1051: ("42S02", "Unknown table '%s'"),
    1052: ("23000", "Column '%s' in %s is ambiguous"),
    1054: ("42S22", "Unknown column '%s' in '%s'"),
    1055: (
        "42000",
        "Expression #%s of SELECT list is not in GROUP BY clause and contains nonaggregated "
        "column '%s' which is not functionally dependent on columns in GROUP BY clause; this is "
        "incompatible with sql_mode=only_full_group_by",
    ),
    1059: ("42000", "Identifier name '%s' is too long"),
    1060: ("42S21", "Duplicate column name '%s'"),
    1061: ("42000", "Duplicate key name '%s'"),
    1062: ("23000", "Duplicate entry '%s' for key '%s'"),
    1063: ("42000", "Incorrect column specifier for column '%s'"),
    1064: (
        "42000",
        "You have an error in your SQL syntax; check the manual that corresponds to your "
        "TiDB version for the right syntax to use %s",
    ),
    1065: ("42000", "Query was empty"),
    1066: ("42000", "Not unique table/alias: '%s'"),
    1067: ("42000", "Invalid default value for '%s'"),
    1068: ("42000", "Multiple primary key defined"),
    1069: ("42000", "Too many keys specified; max %s keys allowed"),
    1070: ("42000", "Too many key parts specified; max %s parts allowed"),
    1071: ("42000", "Specified key was too long (%s bytes); max key length is %s bytes"),
    1072: ("42000", "Key column '%s' doesn't exist in table"),
    1074: ("42000", "Column length too big for column '%s' (max = %s); use BLOB or TEXT instead"),
    1075: (
        "42000",
        "Incorrect table definition; there can be only one auto column and it must be "
        "defined as a key",
    ),
    1089: (
        "HY000",
        "Incorrect prefix key; the used key part isn't a string, the used length is longer "
        "than the key part, or the storage engine doesn't support unique prefix keys",
    ),
    1090: ("42000", "You can't delete all columns with ALTER TABLE; use DROP TABLE instead"),
    1091: ("42000", "Can't DROP '%s'; check that column/key exists"),
    1093: ("HY000", "You can't specify target table '%s' for update in FROM clause"),
    1094: ("HY000", "Unknown thread id: %s"),
    1096: ("HY000", "No tables used"),
    1101: ("42000", "BLOB/TEXT/JSON column '%s' can't have a default value"),
    1102: ("42000", "Incorrect database name '%s'"),
    1103: ("42000", "Incorrect table name '%s'"),
    1105: ("HY000", "%s"),
    1109: ("42S02", "Unknown table '%s' in %s"),
    1110: ("42000", "Column '%s' specified twice"),
    1111: ("HY000", "Invalid use of group function"),
    1113: ("42000", "A table must have at least 1 column"),
    1114: ("HY000", "The table '%s' is full"),
    1115: ("42000", "Unknown character set: '%s'"),
    1117: ("HY000", "Too many columns"),
    1118: (
        "42000",
        "Row size too large. The maximum row size for the used table type, not counting "
        "BLOBs, is %s. This includes storage overhead, check the manual. You have to change some "
        "columns to TEXT or BLOBs",
    ),
    1121: (
        "42000",
        "Table handler doesn't support NULL in given index. Please change column '%s' to "
        "be NOT NULL or use another handler",
    ),
    1136: ("21S01", "Column count doesn't match value count at row %s"),
    1138: ("22004", "Invalid use of NULL value"),
    1139: ("42000", "Got error '%s' from regexp"),
    1142: ("42000", "%s command denied to user '%s'@'%s' for table '%s'"),
    1146: ("42S02", "Table '%s.%s' doesn't exist"),
    1149: (
        "42000",
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL "
        "server version for the right syntax to use",
    ),
    1153: ("08S01", "Got a packet bigger than 'max_allowed_packet' bytes"),
    1157: ("08S01", "Couldn't uncompress communication packet"),
    1166: ("42000", "Incorrect column name '%s'"),
    1170: ("42000", "BLOB/TEXT column '%s' used in key specification without a key length"),
    1171: (
        "42000",
        "All parts of a PRIMARY KEY must be NOT NULL; if you need NULL in a key, use UNIQUE "
        "instead",
    ),
    1176: ("42000", "Key '%s' doesn't exist in table '%s'"),
    1193: ("HY000", "Unknown system variable '%s'"),
    1205: ("HY000", "Lock wait timeout exceeded; try restarting transaction"),
    1210: ("HY000", "Incorrect arguments to %s"),
    1213: ("40001", "Deadlock found when trying to get lock; try restarting transaction"),
    1172: ("42000", "Result consisted of more than one row"),
    1222: ("21000", "The used SELECT statements have a different number of columns"),
    1227: (
        "42000",
        "Access denied; you need (at least one of) the %s privilege(s) for this operation",
    ),
    1228: ("HY000", "Variable '%s' is a SESSION variable and can't be used with SET GLOBAL"),
    1229: ("HY000", "Variable '%s' is a GLOBAL variable and should be set with SET GLOBAL"),
    1230: ("42000", "Variable '%s' doesn't have a default value"),
    1231: ("42000", "Variable '%s' can't be set to the value of '%s'"),
    1232: ("42000", "Incorrect argument type to variable '%s'"),
    1235: ("42000", "This version of TiDB doesn't yet support '%s'"),
    1238: ("HY000", "Variable '%s' is a %s variable"),
    1241: ("21000", "Operand should contain %s column(s)"),
    1242: ("21000", "Subquery returns more than 1 row"),
    1243: ("HY000", "Unknown prepared statement handler (%s) given to %s"),
    1248: ("42000", "Every derived table must have its own alias"),
    1253: ("42000", "COLLATION '%s' is not valid for CHARACTER SET '%s'"),
    1260: ("HY000", "Some rows were cut by %s"),
    1264: ("22003", "Out of range value for column '%s' at row %s"),
    1265: ("01000", "Data truncated for column '%s' at row %s"),
    1267: ("HY000", "Illegal mix of collations (%s,%s) and (%s,%s) for operation '%s'"),
    1273: ("HY000", "Unknown collation: '%s'"),
    1280: ("42000", "Incorrect index name '%s'"),
    1286: ("42000", "Unknown storage engine '%s'"),
    1288: ("HY000", "The target table %s of the %s is not updatable"),
    1291: ("HY000", "Column '%s' has duplicated value '%s' in %s"),
    1292: ("22007", "Truncated incorrect %s value: '%s'"),
    1294: ("HY000", "Invalid ON UPDATE clause for '%s' column"),
    1298: ("HY000", "Unknown or incorrect time zone: '%s'"),
    8004: ("HY000", "Transaction is too large, size: %s"),
    8025: ("HY000", "entry too large, the max entry size is %s, the size of data is %s"),
    8143: (
        "HY000",
        "non-transactional job failed, job id: %s, total jobs: %s. job range: [%s, %s], "
        "job sql: %s, err: %s",
    ),
    8175: (
        "HY000",
        "Your query has been cancelled due to exceeding the allowed memory limit for a single SQL "
        "query. Please try narrowing your query scope or increase the tidb_mem_quota_query limit "
        "and try again.[conn=%s]",
    ),
    1301: ("HY000", "Result of %s() was larger than max_allowed_packet (%s) - truncated"),
    1300: ("HY000", "Invalid %s character string: '%s'"),
    1305: ("42000", "%s %s does not exist"),
    1317: ("70100", "Query execution was interrupted"),
    1329: ("02000", "No data - zero rows fetched, selected, or processed"),
    1347: ("HY000", "'%s.%s' is not %s"),
    1352: ("HY000", "View's SELECT refers to a temporary table '%s'"),
    1562: ("HY000", "Cannot create temporary table with partitions"),
    1351: ("HY000", "View's SELECT contains a variable or parameter"),
    1353: (
        "HY000",
        "In definition of view, derived table or common table expression, SELECT list and "
        "column names list have different column counts",
    ),
    1356: (
        "HY000",
        "View '%s.%s' references invalid table(s) or column(s) or function(s) or "
        "definer/invoker of view lack rights to use them",
    ),
    1364: ("HY000", "Field '%s' doesn't have a default value"),
    1365: ("22012", "Division by 0"),
    1366: ("HY000", "Incorrect %s value: '%s' for column '%s' at row %s"),
    1367: ("22007", "Illegal %s '%s' value found during parsing"),
    1406: ("22001", "Data too long for column '%s' at row %s"),
    1412: ("HY000", "Table definition has changed, please retry transaction"),
    1426: ("42000", "Too-big precision %s specified for '%s'. Maximum is %s."),
    1425: ("42000", "Too big scale %s specified for column '%s'. Maximum is %s."),
    1427: ("42000", "For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column '%s')."),
    1439: ("42000", "Display width out of range for column '%s' (max = %s)"),
    1450: ("HY000", "Changing schema from '%s' to '%s' is not allowed."),
    1461: (
        "42000",
        "Can't create more than max_prepared_stmt_count statements (current value: %s)",
    ),
    1462: ("HY000", "`%s`.`%s` contains view recursion"),
    1467: ("HY000", "Failed to read auto-increment value from storage engine"),
    1470: ("HY000", "String '%s' is too long for %s (should be no longer than %s)"),
    1525: ("HY000", "Incorrect %s value: '%s'"),
    1568: (
        "25001",
        "Transaction characteristics can't be changed while a transaction is in progress",
    ),
    1582: ("42000", "Incorrect parameter count in the call to native function '%s'"),
    1628: ("HY000", "Comment for table '%s' is too long (max = %s)"),
    1637: ("HY000", "Too many active concurrent transactions: %s"),
    1644: ("45000", "%s"),
    1681: ("HY000", "Integer display width is deprecated and will be removed in a future release."),
    1690: ("22003", "%s value is out of range in '%s'"),
    1706: (
        "HY000",
        "Primary key/partition key update is not allowed since the table is updated both as"
        " '%s' and '%s'.",
    ),
    1791: ("HY000", "Unknown EXPLAIN format name: '%s'"),
    1479: (
        "HY000",
        "Syntax : %s PARTITIONING requires definition of VALUES %s for each partition",
    ),
    1480: ("HY000", "Only %s PARTITIONING can use VALUES %s in partition definition"),
    1481: ("HY000", "MAXVALUE can only be used in last partition definition"),
    1484: ("HY000", "Wrong number of partitions defined, mismatch with previous setting"),
    1486: (
        "HY000",
        "Constant, random or timezone-dependent expressions in (sub)partitioning function"
        " are not allowed",
    ),
    1488: ("HY000", "Field in list of fields for partition function not found in table"),
    1491: ("HY000", "The %s function returns the wrong type"),
    1492: ("HY000", "For %s partitions each partition must be defined"),
    1493: ("HY000", "VALUES LESS THAN value must be strictly increasing for each partition"),
    1495: ("HY000", "Multiple definition of same constant in list partitioning"),
    1499: ("HY000", "Too many partitions (including subpartitions) were defined"),
    1500: (
        "HY000",
        "It is only possible to mix RANGE/LIST partitioning with HASH/KEY partitioning for "
        "subpartitioning",
    ),
    1503: ("HY000", "A %s must include all columns in the table's partitioning function"),
    1504: ("HY000", "Number of %s = 0 is not an allowed value"),
    1505: ("HY000", "Partition management on a not partitioned table is not possible"),
    1506: ("HY000", "Foreign key clause is not yet supported in conjunction with partitioning"),
    1507: ("HY000", "Error in list of partitions to %s"),
    1508: ("HY000", "Cannot remove all partitions, use DROP TABLE instead"),
    1509: ("HY000", "COALESCE PARTITION can only be used on HASH/KEY partitions"),
    1510: (
        "HY000",
        "REORGANIZE PARTITION can only be used to reorganize partitions not to change "
        "their numbers",
    ),
    1512: ("HY000", "%s PARTITION can only be used on RANGE/LIST partitions"),
    1515: ("HY000", "At least one partition must be coalesced"),
    1517: ("HY000", "Duplicate partition name %s"),
    1519: ("HY000", "When reorganizing a set of partitions they must be in consecutive order"),
    1520: (
        "HY000",
        "Reorganize of range partitions cannot change total ranges except for last "
        "partition where it can extend the range",
    ),
    1526: ("HY000", "Table has no partition for value %s"),
    1563: ("HY000", "Partition constant is out of partition function domain"),
    1564: ("HY000", "This partition function is not allowed"),
    1566: ("HY000", "Not allowed to use NULL value in VALUES LESS THAN"),
    1567: ("HY000", "Incorrect partition name"),
    1652: ("HY000", "Duplicate partition field name '%s'"),
    1653: ("HY000", "Inconsistency in usage of column lists for partitioning"),
    1654: ("HY000", "Partition column values of incorrect type"),
    1655: ("HY000", "Too many fields in '%s'"),
    1656: ("HY000", "Cannot use MAXVALUE as value in VALUES IN"),
    1657: ("HY000", "Cannot have more than one value for this type of %s partitioning"),
    1658: (
        "HY000",
        "Row expressions in VALUES IN only allowed for multi-field column partitioning",
    ),
    1659: ("HY000", "Field '%s' is of a not allowed type for this type of partitioning"),
    1697: ("HY000", "VALUES value for partition '%s' must have type INT"),
    1731: ("HY000", "Non matching attribute '%s' between partition and table"),
    1732: ("HY000", "Table to exchange with partition is partitioned: '%s'"),
    1735: ("HY000", "Unknown partition '%s' in table '%s'"),
    1736: ("HY000", "Tables have different definitions"),
    1737: ("HY000", "Found a row that does not match the partition"),
    1740: ("HY000", "Table to exchange with partition has foreign key references: '%s'"),
    1747: ("HY000", "PARTITION () clause on non partitioned table"),
    1748: ("HY000", "Found a row not matching the given partition set"),
    1792: ("25006", "Cannot execute statement in a READ ONLY transaction."),
    1846: ("0A000", "%s is not supported. Reason: %s. Try %s."),
    1835: ("HY000", "Malformed communication packet."),
    1927: ("70100", "Connection was killed"),
    1167: ("42000", "The used storage engine can't index column '%s'"),
    1221: ("HY000", "Incorrect usage of %s and %s"),
    1391: ("HY000", "Key part '%s' length cannot be 0"),
    1553: ("HY000", "Cannot drop index '%s': needed in a foreign key constraint"),
    1674: (
        "HY000",
        "Statement is unsafe because it uses a system function that may return a "
        "different value on the slave",
    ),
    **NEWER,
    **ACCOUNTS,
    **CONSTRAINTS,
}


def refuse(code: int, *arguments: object) -> Refused:
    """The error of that code, its text filled in. Raises KeyError for a code not in the table."""
    state, template = _ERRORS[code]
    return Refused(code, state, template % arguments if arguments else template)


def state_of(code: int) -> str:
    """SQLSTATE of a code; HY000 where MySQL has no better one."""
    return _ERRORS.get(code, ("HY000", ""))[0]
