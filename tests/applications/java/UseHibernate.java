import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import org.hibernate.cfg.Configuration;

/** java UseHibernate.java URL create|update|validate|use|drop : tables made by hbm2ddl from entities, in their first or second form. */
class UseHibernate {
    enum Kind { SMALL, LARGE }

    @Embeddable public static class Place { @Column(length = 40) String street; @Column(length = 10) String zip; }

    @Entity(name = "Person") @Table(name = "person", indexes = @Index(name = "by_name", columnList = "name, born desc"), uniqueConstraints = @UniqueConstraint(name = "one_email", columnNames = "email"))
    public static class PersonBefore { @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id; @Column(nullable = false, length = 60) String name; String email; LocalDate born; }

    @Entity(name = "Person") @Table(name = "person", indexes = @Index(name = "by_name", columnList = "name, born desc"), uniqueConstraints = @UniqueConstraint(name = "one_email", columnNames = "email"))
    public static class Person {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @Column(nullable = false, length = 60) String name;
        String email; LocalDate born; @Embedded Place place;
        @Enumerated(EnumType.STRING) Kind kind; @Enumerated(EnumType.ORDINAL) Kind size;
        @Column(precision = 12, scale = 3) BigDecimal balance; Instant seen; Duration span; UUID uid; boolean active; @Lob String note; @Lob byte[] raw; double ratio; float part; LocalTime at; LocalDateTime since; OffsetDateTime zoned; Character letter; Integer[] numbers;
        @Version int version;
        @ElementCollection @CollectionTable(name = "person_tags") Set<String> tags = new TreeSet<>();
        @OneToMany(mappedBy = "owner", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("title") List<Thing> things = new ArrayList<>();
        @ManyToMany Set<Team> teams = new HashSet<>();
    }

    @Entity(name = "Thing") @Inheritance(strategy = InheritanceType.JOINED)
    public static class Thing { @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) Long id; @Column(length = 50) String title; @ManyToOne(fetch = FetchType.LAZY) Person owner; }

    @Entity(name = "Book") public static class Book extends Thing { int pages; }

    @Entity(name = "Team") public static class Team { @Id @Column(length = 8) String code; @Column(columnDefinition = "varchar(30) default 'none'") String title; }

    public static void main(String[] words) {
        java.util.logging.LogManager.getLogManager().reset();
        var step = words[1];
        var configuration = new Configuration()
            .setProperty("hibernate.connection.url", words[0]).setProperty("hibernate.connection.username", "root").setProperty("hibernate.connection.password", "")
            .setProperty("hibernate.dialect", "org.hibernate.dialect.MySQLDialect").setProperty("hibernate.jdbc.batch_size", "10").setProperty("hibernate.jdbc.time_zone", "UTC")
            .setProperty("hibernate.hbm2ddl.halt_on_error", "true").setProperty("hibernate.hbm2ddl.auto", Map.of("create", "create", "update", "update", "drop", "create-drop").getOrDefault(step, "validate"));
        for (var each : step.equals("create") ? List.of(PersonBefore.class) : List.of(Person.class, Thing.class, Book.class, Team.class)) configuration.addAnnotatedClass(each);
        try (var factory = configuration.buildSessionFactory()) {
            if (step.equals("use")) factory.inTransaction(UseHibernate::fill);
            if (step.equals("use")) factory.inTransaction(UseHibernate::ask);
            System.out.println(step);
        }
    }

    static void fill(org.hibernate.Session session) {
        for (var code : List.of("a", "b")) { var team = new Team(); team.code = code; team.title = "Team " + code; session.persist(team); }
        for (int i = 0; i < 6; i++) {
            var person = new Person();
            person.name = "Name " + i % 3; person.email = i + "@x"; person.born = LocalDate.of(2000, 2, 20 + i); person.place = new Place(); person.place.street = "Straße " + i;
            person.kind = Kind.values()[i % 2]; person.size = Kind.LARGE; person.balance = new BigDecimal("10.125").multiply(BigDecimal.valueOf(i)); person.seen = Instant.parse("2024-03-31T01:30:00Z"); person.span = Duration.ofMinutes(i);
            person.uid = new UUID(i, i); person.active = i % 2 == 0; person.note = "🍎".repeat(i); person.raw = new byte[] {0, (byte) 255, (byte) i}; person.ratio = i / 3.0; person.part = i / 4f; person.at = LocalTime.of(10, i); person.since = LocalDateTime.of(2024, 1, 1, 0, 0, i);
            person.tags.addAll(List.of("t" + i % 2, "u")); person.letter = 'x'; person.numbers = new Integer[] {i, i + 1};
            for (int j = 0; j < 3; j++) { var book = new Book(); book.title = "Book " + i + j; book.pages = 100 * j; book.owner = person; person.things.add(book); }
            person.teams.add(session.getReference(Team.class, i % 2 == 0 ? "a" : "b"));
            session.persist(person);
        }
    }

    static void ask(org.hibernate.Session session) {
        var of = session.createQuery("from Person p where p.name = :n and p.active order by p.id", Person.class).setParameter("n", "Name 1").list();
        for (var each : of) System.out.println(each.email + each.born + each.place.street + each.kind + each.size + each.balance + each.seen + each.span + each.uid + each.note + Arrays.toString(each.raw) + each.ratio + each.part + each.at + each.since + each.tags + each.letter + Arrays.toString(each.numbers) + each.things.size());
        for (var text : List.of(
            "select p.name, count(t), max(p.balance) from Person p left join p.things t group by p.name having count(t) > 2 order by p.name",
            "select t.title from Book t join t.owner o where o.place.street like '%2' order by t.title desc limit 2 offset 1",
            "select p.email from Person p where exists (select 1 from p.tags g where g = 't1') and p.born between {d '2000-02-21'} and {d '2000-02-25'} order by p.email",
            "select p.email, rank() over (partition by p.kind order by p.balance desc) from Person p order by p.email",
            "select extract(year from p.born), upper(p.name), coalesce(p.place.zip, 'none'), p.balance * 2 from Person p order by p.id fetch first 2 rows only",
            "select g, count(*) from Person p join p.tags g group by g order by g",
            "with old as (select p.id as id from Person p where p.born < {d '2000-02-23'}) select count(*) from old"))
            for (var row : session.createQuery(text, Object[].class).list()) System.out.println(Arrays.toString(row));
        System.out.println(session.createMutationQuery("update Person set balance = balance + 1, version = version + 1 where kind = :k").setParameter("k", Kind.SMALL).executeUpdate());
        System.out.println(session.createMutationQuery("delete from Book b where b.pages > 100").executeUpdate());
        System.out.println(session.createMutationQuery("update Book set pages = pages + 1 where owner.name = 'Name 0'").executeUpdate());
        session.clear();
        var one = session.find(Person.class, 3L, LockMode());
        one.name = "Changed"; one.tags.add("new"); one.things.remove(0);
        session.flush();
        System.out.println(one.version + " " + session.createQuery("select count(*) from Thing", Long.class).uniqueResult());
    }

    static LockModeType LockMode() { return LockModeType.PESSIMISTIC_WRITE; }
}
