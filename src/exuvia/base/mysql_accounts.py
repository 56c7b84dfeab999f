"""Codes about accounts, privileges and files; see mysql.py."""

ACCOUNTS: dict[int, tuple[str, str]] = {
    1045: ("28000", "Access denied for user '%s'@'%s' (using password: %s)"),
    1095: ("HY000", "You are not owner of thread %s"),
    1133: ("42000", "Can't find any matching row in the user table"),
    1141: ("42000", "There is no such grant defined for user '%s' on host '%s'"),
    1143: ("42000", "%s command denied to user '%s'@'%s' for column '%s' in table '%s'"),
    1144: (
        "42000",
        "Illegal GRANT/REVOKE command; please consult the manual to see which privileges can "
        "be used",
    ),
    1147: ("42000", "There is no such grant defined for user '%s' on host '%s' on table '%s'"),
    1083: (
        "42000",
        "Field separator argument is not what is expected; check the manual",
    ),
    1086: ("HY000", "File '%s' already exists"),
    1159: ("08S01", "Got timeout reading communication packets"),
    1261: ("01000", "Row %s doesn't contain data for all columns"),
    1262: (
        "01000",
        "Row %s was truncated; it contained more data than there were input columns",
    ),
    1290: (
        "HY000",
        "The MySQL server is running with the %s option so it cannot execute this statement",
    ),
    1360: ("HY000", "Trigger does not exist"),
    1539: ("HY000", "Unknown event '%s'"),
    1396: ("HY000", "Operation %s failed for %s"),
    1410: ("42000", "You are not allowed to create a user with GRANT"),
    1421: ("HY000", "The statement (%s) has no open cursor."),
    1524: ("HY000", "Plugin '%s' is not loaded"),
    1827: (
        "HY000",
        "The password hash doesn't have the expected format. Check if the correct password "
        "algorithm is being used with the PASSWORD() function.",
    ),
    3118: ("HY000", "Access denied for user '%s'@'%s'. Account is locked."),
    3523: ("HY000", "Unknown authorization ID %s"),
    3530: ("HY000", "%s is not granted to %s"),
    3619: ("HY000", "Illegal privilege level specified for %s"),
    3628: (
        "HY000",
        "The current user '%s' does not have the privilege to grant or revoke role %s",
    ),
    3929: ("HY000", "Dynamic privilege '%s' is not registered with the server."),
    3948: (
        "42000",
        "Loading local data is disabled; this must be enabled on both the client and server sides",
    ),
    4031: (
        "HY000",
        "The client was disconnected by the server because of inactivity. See wait_timeout and "
        "interactive_timeout for configuring this behavior.",
    ),
    3159: (
        "HY000",
        "Connections using insecure transport are prohibited while --require_secure_transport=ON.",
    ),
}
