import org.flywaydb.core.Flyway;

/** java UseFlyway.java URL migrate|validate|clean */
class UseFlyway {
    public static void main(String[] words) {
        var flyway = Flyway.configure().dataSource(words[0], "root", "").locations("filesystem:migrations").cleanDisabled(false)
            .baselineOnMigrate(true).baselineVersion("0").load();
        switch (words[1]) {
            case "migrate" -> System.out.println(flyway.migrate().migrationsExecuted);
            case "validate" -> { flyway.validate(); for (var each : flyway.info().all()) System.out.println(each.getVersion() + " " + each.getState()); flyway.repair(); }
            default -> System.out.println(flyway.clean().schemasCleaned.size());
        }
    }
}
