// node mikroorm.js first|second|use|down: MikroORM's schema generator, and its unit of work.
const { MikroORM, EntitySchema, Collection } = require('@mikro-orm/mysql');
const step = process.argv[2];
const late = step !== 'first';
const Author = new EntitySchema({
  name: 'Author', tableName: 'author', indexes: [{ properties: ['name', 'born'], name: 'name_born' }], uniques: late ? [{ properties: ['name', 'email'] }] : [],
  properties: {
    id: { type: 'number', primary: true }, name: { type: 'string', length: late ? 150 : 100 }, email: { type: 'string', unique: true, nullable: true }, born: { type: 'date', nullable: true },
    score: { type: late ? 'double' : 'float', default: 1.5 }, active: { type: 'boolean', default: true }, meta: { type: 'json', nullable: true, columnType: 'text' }, balance: { type: 'decimal', precision: 12, scale: 4, default: '0' }, kind: { enum: true, items: late ? ['x', 'y', 'z'] : ['x', 'y'], default: 'x' },
    ...(late ? { bio: { type: 'text', nullable: true, comment: 'about' } } : { old: { type: 'string', nullable: true } }), made: { type: 'datetime', length: 3, defaultRaw: 'current_timestamp(3)' },
    books: { kind: '1:m', entity: 'Book', mappedBy: 'author' },
  },
});
const Book = new EntitySchema({
  name: 'Book', tableName: 'book', properties: {
    uid: { type: 'uuid', primary: true }, title: { type: 'string', index: true }, pages: { type: late ? 'bigint' : 'int', unsigned: true, nullable: true }, cover: { type: 'blob', nullable: true },
    author: { kind: 'm:1', entity: 'Author', nullable: true, deleteRule: late ? 'cascade' : 'set null' }, tags: { kind: 'm:n', entity: 'Tag', pivotTable: 'book_tags' },
  },
});
const Tag = new EntitySchema({ name: 'Tag', tableName: 'tag', properties: { id: { type: 'bigint', primary: true }, word: { type: 'string', length: 30 } } });
const steps = {
  async first(orm) { await orm.schema.updateSchema(); return 'made'; },
  async second(orm) { await orm.schema.updateSchema(); return 'made'; },
  async use(orm) {
    const said = {}; let em = orm.em.fork();
    for (let i = 0; i < 5; i++) {
      const author = em.create('Author', { name: `Name ${i % 2}`, email: `m${i}@x`, born: `2000-01-0${i + 1}`, meta: { n: i, deep: { a: [i] } }, balance: `${i}.5`, kind: 'xyz'[i % 3], bio: 'b'.repeat(i) });
      for (let j = 0; j < 2; j++) em.create('Book', { uid: `00000000-0000-4000-8000-0000000000${i}${j}`, title: `Book ${i}${j}`, pages: 100 * i + j, author, cover: Buffer.from([0, i]) });
    }
    await em.flush(); em = orm.em.fork();
    const tag = em.create('Tag', { word: 'red' }), book = await em.findOneOrFail('Book', { title: 'Book 11' }, { populate: ['tags'] });
    book.tags.add(tag); await em.flush(); em = orm.em.fork();
    const plain = (rows) => rows.map((a) => [a.name, a.email, a.born, a.score, a.active, a.meta, a.balance, a.kind, a.books.isInitialized() ? a.books.getItems().map((b) => b.title) : null]);
    said.found = plain(await em.find('Author', { $or: [{ meta: { deep: { a: [1] } } }, { books: { pages: { $gte: 300 } } }] }, { populate: ['books'], orderBy: { id: 'desc', books: { title: 'asc' } } }));
    said.page = await em.findAndCount('Book', { author: { name: 'name 1' } }, { orderBy: { title: 'ASC' }, limit: 2, offset: 1 }).then(([rows, n]) => [n, rows.map((b) => b.title)]);
    said.tags = await em.count('Book', { tags: { word: 'red' } });
    said.groups = await em.getKnex()('author').select('kind').count('* as n').groupBy('kind').havingRaw('count(*) > 1').orderBy('kind');
    em = orm.em.fork(); const one = await em.findOne('Author', { email: 'm2@x' }); one.name = 'Other'; one.meta = { z: 1 }; await em.flush();
    said.json = await em.getConnection().execute("select json_extract(meta, '$.z') as z from author where email = 'm2@x'");
    said.upsert = (await em.upsert('Author', { id: 1, name: 'Up', email: 'm0@x' })).name; em = orm.em.fork();
    said.native = [await em.nativeUpdate('Book', { pages: { $lt: 200 } }, { pages: 1 }), await em.nativeDelete('Author', { email: 'm4@x' }), await em.count('Book')];
    said.rollback = await em.transactional(async (t) => { await t.nativeDelete('Book', {}); throw new Error('no'); }).catch((e) => e.message);
    said.lock = await em.transactional(async (t) => (await t.findOne('Author', 2, { lockMode: 4 })).email);
    said.duplicate = await em.insert('Author', { name: 'x', email: 'm1@x' }).catch((e) => e.constructor.name);
    return said;
  },
  async down(orm) { await orm.schema.dropSchema(); return 'dropped'; },
};
(async () => {
  const orm = await MikroORM.init({ host: '127.0.0.1', port: +process.env.APP_PORT, user: 'root', dbName: process.env.APP_DATABASE, entities: [Author, Book, Tag], timezone: 'Z', debug: false, discovery: { warnWhenNoEntities: false }, schemaGenerator: { disableForeignKeys: false } });
  try { console.log(JSON.stringify(await steps[step](orm), null, 1)); } finally { await orm.close(); }
})().catch((e) => { console.error(e); process.exit(1); });
