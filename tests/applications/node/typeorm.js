// node typeorm.js first|second|use|down: tables made and changed by comparing entities with the database.
require('reflect-metadata');
const { DataSource, EntitySchema, In, MoreThan, Like, Table, TableIndex, TableColumn } = require('typeorm');
const step = process.argv[2];
const late = step !== 'first';
const Person = new EntitySchema({
  name: 'Person', tableName: 'person',
  columns: {
    id: { type: 'int', primary: true, generated: true },
    name: { type: 'varchar', length: late ? 120 : 60, default: late ? 'none' : undefined },
    email: { type: 'varchar', unique: true, nullable: true },
    kind: { type: 'enum', enum: late ? ['a', 'b', 'c'] : ['a', 'b'], default: 'a' },
    points: { type: late ? 'bigint' : 'int', unsigned: true, default: 0 },
    price: { type: 'decimal', precision: 10, scale: late ? 3 : 2, default: '1.50' },
    data: { type: 'simple-json', nullable: true },
    ...(late ? { phone: { type: 'varchar', length: 30, nullable: true, comment: "the phone's number" } } : { fax: { type: 'varchar', length: 30, nullable: true } }),
    made: { type: 'datetime', precision: 6, createDate: true },
    changed: { type: 'timestamp', precision: 6, updateDate: true },
    gone: { type: 'datetime', deleteDate: true, nullable: true },
    version: { type: 'int', version: true },
  },
  indices: [{ name: 'by_name', columns: late ? ['name', 'kind'] : ['name'] }, { name: 'by_words', columns: ['email'], fulltext: false }],
  uniques: late ? [{ name: 'name_phone', columns: ['name', 'phone'] }] : [],
  checks: [{ name: 'price_positive', expression: '`price` >= 0' }],
  relations: { posts: { type: 'one-to-many', target: 'Post', inverseSide: 'author' }, groups: { type: 'many-to-many', target: 'Team', joinTable: { name: 'person_team' } } },
});
const Post = new EntitySchema({
  name: 'Post', tableName: 'post',
  columns: { id: { type: late ? 'int' : 'int', primary: true, generated: true }, title: { type: 'varchar', length: 100, charset: 'utf8mb4', collation: late ? 'utf8mb4_unicode_ci' : 'utf8mb4_general_ci' }, body: { type: 'mediumtext', nullable: true }, raw: { type: 'varbinary', length: 20, nullable: true }, day: { type: 'date', nullable: true } },
  indices: [{ name: 'post_title', columns: ['title'] }],
  relations: { author: { type: 'many-to-one', target: 'Person', inverseSide: 'posts', onDelete: late ? 'CASCADE' : 'SET NULL', nullable: true, joinColumn: { name: 'author_id' } } },
});
const Team = new EntitySchema({ name: 'Team', tableName: 'team', columns: { code: { type: 'varchar', length: 10, primary: true }, place: { type: 'point', nullable: true, select: false, spatialFeatureType: 'Point' } } });
delete Team.options.columns.place;
const source = new DataSource({ type: 'mysql', host: '127.0.0.1', port: +process.env.APP_PORT, username: 'root', database: process.env.APP_DATABASE, entities: [Person, Post, Team], timezone: 'Z', migrations: [] });
const steps = {
  async first() { await source.synchronize(); return 'made'; },
  async second() { await source.synchronize(); return 'made'; },
  async use() {
    const said = {};
    const people = source.getRepository('Person'), posts = source.getRepository('Post'), teams = source.getRepository('Team');
    await teams.save([{ code: 'x' }, { code: 'y' }]);
    for (let i = 0; i < 6; i++) await people.save({ name: `N${i % 3}`, email: `e${i}@x`, kind: 'abc'[i % 3], points: i, price: `${i}.125`, phone: `${i}`, data: { i }, posts: [], groups: [{ code: 'xy'[i % 2] }] });
    await posts.insert([...Array(10).keys()].map((i) => ({ title: `Title ${i}`, author: { id: 1 + (i % 5) }, day: '2024-02-29', raw: Buffer.from([i, 255]) })));
    said.find = await people.find({ select: { id: true, name: true, price: true, version: true, data: true }, where: [{ points: MoreThan(2) }, { name: Like('n0') }], relations: { posts: true, groups: true }, order: { id: 'ASC', posts: { id: 'DESC' } } });
    said.page = await people.findAndCount({ select: { id: true, email: true }, where: { kind: In(['a', 'c']), posts: { title: Like('Title%') } }, relations: { posts: true }, order: { id: 'DESC' }, skip: 1, take: 2 });
    said.query = await people.createQueryBuilder('p').leftJoin('p.posts', 'post').select('p.name', 'name').addSelect('COUNT(post.id)', 'n').addSelect('MAX(p.price)', 'most').groupBy('p.name').having('COUNT(post.id) >= 2').orderBy('name').getRawMany();
    said.exists = await people.createQueryBuilder('p').where((q) => 'EXISTS ' + q.subQuery().select('1').from('Post', 'o').where('o.author_id = p.id').getQuery()).getCount();
    const one = await people.findOneBy({ id: 3 }); one.name = 'Changed'; await people.save(one);
    said.version = (await people.findOneBy({ id: 3 })).version;
    said.soft = [(await people.softDelete({ id: 2 })).affected, await people.count(), await people.count({ withDeleted: true }), (await people.restore({ id: 2 })).affected];
    said.upsert = (await people.upsert([{ id: 4, name: 'Up', email: 'e3@x' }], ['id']).then(() => people.findOneBy({ id: 4 }))).name;
    said.increment = [await people.increment({ kind: 'a' }, 'points', 5).then((r) => r.affected), await people.sum('points'), await people.average('price'), await people.maximum('points')];
    said.transaction = await source.transaction('REPEATABLE READ', async (m) => { await m.delete('Post', { id: 1 }); throw new Error('no'); }).catch((e) => e.message);
    said.lock = await source.transaction(async (m) => (await m.findOne('Person', { where: { id: 1 }, lock: { mode: 'pessimistic_write' } })).email);
    said.duplicate = await people.insert({ name: 'd', email: 'e1@x' }).catch((e) => e.driverError.errno);
    said.check = await people.insert({ name: 'd', email: 'z', price: '-1' }).catch((e) => e.driverError.errno).then((n) => [3819, 4025].includes(n));
    said.cascade = [(await people.delete({ id: 5 })).affected, await posts.count()];
    const hide = (value) => JSON.parse(JSON.stringify(value, (key, v) => (['made', 'changed'].includes(key) ? undefined : v)));
    return hide(said);
  },
  async down() { await source.dropDatabase(); return 'dropped'; },
};
source.initialize().then(() => steps[step]()).then((said) => console.log(JSON.stringify(said, null, 1)), (e) => { console.error(e); process.exitCode = 1; }).finally(() => source.destroy());
