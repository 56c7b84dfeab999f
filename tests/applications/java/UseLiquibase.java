import java.sql.DriverManager;
import liquibase.Liquibase;
import liquibase.database.DatabaseFactory;
import liquibase.database.jvm.JdbcConnection;
import liquibase.diff.compare.CompareControl;
import liquibase.diff.DiffGeneratorFactory;
import liquibase.resource.DirectoryResourceAccessor;
import liquibase.snapshot.SnapshotControl;
import liquibase.snapshot.SnapshotGeneratorFactory;
import liquibase.structure.core.*;

/** java UseLiquibase.java URL CHANGES update|snapshot|rollback|clean */
class UseLiquibase {
    public static void main(String[] words) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        try (var connection = DriverManager.getConnection(words[0], "root", "")) {
            var database = DatabaseFactory.getInstance().findCorrectDatabaseImplementation(new JdbcConnection(connection));
            var liquibase = new Liquibase(words[1], new DirectoryResourceAccessor(java.nio.file.Path.of(".")), database);
            switch (words[2]) {
                case "update" -> { liquibase.update(""); System.out.println(liquibase.listUnrunChangeSets(null, null).size()); }
                case "snapshot" -> {
                    var found = SnapshotGeneratorFactory.getInstance().createSnapshot(database.getDefaultSchema(), database, new SnapshotControl(database));
                    for (var kind : java.util.List.of(Table.class, Column.class, ForeignKey.class, UniqueConstraint.class))
                        found.get(kind).stream().map(each -> kind.getSimpleName() + " " + each.getName().toLowerCase()).sorted().distinct().forEach(System.out::println);
                    liquibase.clearCheckSums();
                }
                case "rollback" -> liquibase.rollback(Integer.parseInt(words[3]), "");
                default -> liquibase.dropAll();
            }
        }
    }
}
