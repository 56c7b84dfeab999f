// node knex.js up|use|down: migrations of Knex, and queries.
const knex = require('knex')({
  client: 'mysql2',
  connection: { host: '127.0.0.1', port: +process.env.APP_PORT, user: 'root', database: process.env.APP_DATABASE, timezone: 'Z', decimalNumbers: false },
  pool: { min: 0, max: 3 },
});
const migrations = {
  '1-first': {
    async up(k) {
      await k.schema.createTable('customers', (t) => {
        t.increments('id'); t.string('name', 80).notNullable().index(); t.string('email').unique(); t.text('note', 'longtext'); t.float('rate'); t.decimal('credit', 10, 3).defaultTo(1.5);
        t.boolean('active').notNullable().defaultTo(true); t.json('settings'); t.enu('kind', ['a', 'b', 'cd']).defaultTo('a'); t.uuid('uid'); t.binary('raw', 16); t.date('day'); t.timestamps(true, true);
        t.comment('a table');
      });
      await k.schema.createTable('orders', (t) => {
        t.bigIncrements(); t.integer('customer_id').unsigned().notNullable().references('id').inTable('customers').onDelete('CASCADE'); t.specificType('total', 'DECIMAL(12,2) UNSIGNED'); t.dateTime('placed', { precision: 6 }).defaultTo(k.fn.now(6)); t.unique(['customer_id', 'placed'], 'once');
      });
      await k.schema.createView('big_orders', (v) => { v.columns(['id', 'total']); v.as(k('orders').select('id', 'total').where('total', '>', 10)); });
    },
    async down(k) { await k.schema.dropView('big_orders'); await k.schema.dropTable('orders'); await k.schema.dropTable('customers'); },
  },
  '2-second': {
    async up(k) {
      await k.schema.alterTable('customers', (t) => {
        t.string('name', 120).notNullable().defaultTo('none').alter(); t.bigInteger('points').defaultTo(0).after('name'); t.renameColumn('note', 'remark'); t.dropColumn('rate'); t.index(['kind', 'name'], 'by_kind'); t.dropUnique(['email']); t.unique(['email', 'kind'], { indexName: 'email_kind' }); t.setNullable('active');
      });
      await k.schema.alterTable('orders', (t) => { t.dropForeign('customer_id'); });
      await k.schema.alterTable('orders', (t) => { t.foreign('customer_id', 'of_customer').references('customers.id').onUpdate('CASCADE').onDelete('RESTRICT'); t.string('state', 20).collate('utf8mb4_unicode_ci'); t.check('total >= 0', [], 'positive'); });
      await k.schema.renameTable('orders', 'purchases').catch((e) => { throw e; });
      await k.raw('ALTER TABLE purchases ADD COLUMN vat DECIMAL(12,2) GENERATED ALWAYS AS (total * 0.2) VIRTUAL, ADD INDEX by_vat (vat)');
    },
    async down(k) {
      await k.raw('ALTER TABLE purchases DROP INDEX by_vat, DROP COLUMN vat');
      await k.schema.renameTable('purchases', 'orders');
      await k.schema.alterTable('orders', (t) => { t.dropChecks(['positive']); t.dropForeign('customer_id', 'of_customer'); t.dropColumn('state'); });
      await k.schema.alterTable('orders', (t) => { t.foreign('customer_id').references('customers.id').onDelete('CASCADE'); });
      await k.schema.alterTable('customers', (t) => { t.dropIndex(['kind', 'name'], 'by_kind'); t.dropUnique(['email', 'kind'], 'email_kind'); t.unique(['email']); t.renameColumn('remark', 'note'); t.dropColumns('points'); t.float('rate'); t.dropNullable('active'); });
    },
  },
};
const source = { getMigrations: async () => Object.keys(migrations), getMigrationName: (n) => n, getMigration: async (n) => migrations[n] };
const steps = {
  up: () => knex.migrate.latest({ migrationSource: source }).then(([, names]) => names),
  down: () => knex.migrate.rollback({ migrationSource: source }, true).then(([, names]) => names),
  async use() {
    const said = {};
    said.ids = [await knex('customers').insert([{ name: 'Ann', email: 'a@x', settings: JSON.stringify({ a: [1, { b: 'é' }] }), raw: Buffer.from('00ff10', 'hex'), day: '2024-02-29' }, { name: 'Bob', email: 'b@x', kind: 'cd' }])];
    said.batch = (await knex.batchInsert('purchases', [...Array(30).keys()].map((i) => ({ customer_id: 1 + (i % 2), total: i * 1.11, placed: `2024-01-01 00:00:${String(i).padStart(2, '0')}.123456` })), 7)).length;
    said.merge = await knex('customers').insert({ id: 2, name: 'Bobby', email: 'b@x' }).onConflict('id').merge(['name']);
    said.ignore = await knex('customers').insert({ id: 2, name: 'No', email: 'b@x' }).onConflict().ignore();
    said.joined = await knex('customers as c').join('purchases as p', 'c.id', 'p.customer_id').select('c.name').count('p.id as n').sum({ total: 'p.total', vat: 'p.vat' }).groupBy('c.id').orderBy('c.id');
    said.window = await knex('purchases').select('id', knex.raw('CAST(SUM(total) OVER (PARTITION BY customer_id ORDER BY id) AS DECIMAL(12,2)) AS running')).orderBy('id').limit(5);
    said.cte = await knex.with('w', knex('purchases').where('total', '>', 20)).select('id').from('w').union(knex('purchases').select('id').where('total', '<', 3)).orderBy('id');
    said.json = await knex('customers').select(knex.jsonExtract('settings', '$.a[1].b', 'b')).whereJsonPath('settings', '$.a[0]', '=', 1);
    said.exists = await knex('customers').whereExists(knex('purchases').whereRaw('purchases.customer_id = customers.id').andWhere('total', '>', 30)).pluck('name');
    said.view = await knex('big_orders').count('* as n').catch((e) => e.errno);
    said.updated = [await knex('purchases').where('total', '<', 2).update({ state: 'Small', total: knex.raw('total + 1') }), await knex('purchases').where('state', 'small').increment('total', 2)];
    said.locked = await knex.transaction(async (t) => t('purchases').where('id', 3).forUpdate().first('total', 'vat'));
    said.first = await knex('customers').first('name', 'settings', 'raw', 'day', 'credit', 'active', 'kind');
    said.duplicate = await knex('purchases').insert({ customer_id: 1, total: 1, placed: '2024-01-01 00:00:00.123456' }).catch((e) => e.errno);
    said.negative = await knex('purchases').insert({ customer_id: 99, total: 1 }).catch((e) => e.errno);
    said.info = Object.entries(await knex('customers').columnInfo()).map(([n, c]) => [n, c.nullable]);
    said.has = [await knex.schema.hasTable('purchases'), await knex.schema.hasColumn('purchases', 'vat'), await knex.schema.hasTable('no')];
    said.deleted = [await knex('purchases').del(), await knex('customers').del()];
    return said;
  },
};
steps[process.argv[2]]().then((said) => console.log(JSON.stringify(said, null, 1)), (e) => { console.error(e); process.exitCode = 1; }).finally(() => knex.destroy());
