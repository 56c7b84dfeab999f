// Models of the migrated tables: prints what they find, as JSON.
const { Sequelize, DataTypes, Op } = require('sequelize');
const sequelize = new Sequelize(process.env.APP_DATABASE, 'root', '', { host: '127.0.0.1', port: process.env.APP_PORT, dialect: 'mysql', logging: false, timezone: '+00:00' });
const User = sequelize.define('User', {
  email: DataTypes.STRING, name: DataTypes.STRING, age: DataTypes.BIGINT, balance: DataTypes.DECIMAL(12, 2), active: DataTypes.BOOLEAN,
  role: DataTypes.ENUM('user', 'admin', 'root'), data: DataTypes.JSON, phone: DataTypes.STRING, day: DataTypes.DATEONLY, at: DataTypes.TIME, ratio: DataTypes.DOUBLE,
}, { tableName: 'users' });
const Article = sequelize.define('Article', { headline: DataTypes.STRING, code: DataTypes.STRING, slug: DataTypes.STRING }, { tableName: 'articles', timestamps: false });
User.hasMany(Article, { foreignKey: 'userId' });
Article.belongsTo(User, { foreignKey: 'userId' });
(async () => {
  const said = {};
  for (let i = 0; i < 12; i++) {
    const user = await User.create({ email: `u${i}@example.com`, name: `Name ${i % 3}`, age: i, balance: `${i}.25`, role: ['user', 'admin', 'root'][i % 3], data: { tags: ['a', `t${i % 2}`], deep: { n: i } }, phone: `${i}`, day: `2024-02-${10 + i}`, at: '10:20:30', ratio: i / 4 });
    await Article.bulkCreate([0, 1].map((j) => ({ userId: user.id, headline: `H${i}${j}`, code: `c${i}${j}`, slug: `s${i}-${j}` })));
  }
  const plain = (rows) => rows.map((row) => { const { createdAt, updatedAt, data, ...rest } = row.get({ plain: true }); return rest; });
  said.all = plain(await User.findAll({ order: [['id', 'ASC']], limit: 3, offset: 2 }));
  said.page = (await User.findAndCountAll({ where: { [Op.or]: [{ age: { [Op.between]: [3, 7] } }, { email: { [Op.like]: 'U1%' } }] }, include: { model: Article, required: true, where: { slug: { [Op.endsWith]: '-1' } } }, distinct: true, order: [['id', 'DESC']], limit: 2 }));
  said.page = [said.page.count, said.page.rows.map((u) => [u.email, u.Articles.map((a) => a.slug)])];
  said.json = (await User.findAll({ where: { 'data.deep.n': { [Op.gt]: 9 } }, order: ['id'] })).map((u) => [u.data.tags, u.data.deep]);
  said.groups = (await User.findAll({ attributes: ['role', [sequelize.fn('COUNT', sequelize.col('id')), 'n'], [sequelize.fn('SUM', sequelize.col('balance')), 'sum']], group: 'role', having: sequelize.literal('n > 3'), order: [['role', 'DESC']] })).map((u) => u.get({ plain: true }));
  said.subquery = await Article.count({ where: { userId: { [Op.in]: sequelize.literal("(SELECT id FROM users WHERE role = 'root')") } } });
  said.upsert = (await User.upsert({ id: 1, email: 'u0@example.com', name: 'New', balance: 5 }))[0].name;
  said.increment = await User.increment({ balance: 1.5 }, { where: { role: 'admin' } }).then(() => User.sum('balance'));
  said.duplicate = await User.create({ email: 'u3@example.com', age: 99 }).catch((e) => [e.name, e.fields]);
  said.checked = await User.create({ email: 'v', age: 98, balance: -1 }).catch((e) => e.name);
  said.rolledBack = await sequelize.transaction(async (t) => { await Article.destroy({ where: {}, transaction: t }); throw new Error('no'); }).catch((e) => e.message);
  said.locked = await sequelize.transaction({ isolationLevel: 'READ COMMITTED' }, async (t) => (await User.findOne({ where: { id: 2 }, lock: t.LOCK.UPDATE, transaction: t })).email);
  said.setNull = [await User.destroy({ where: { id: 5 } }), await Article.count({ where: { userId: null } })];
  said.columns = Object.entries(await sequelize.getQueryInterface().describeTable('users')).map(([name, c]) => [name, c.allowNull, c.primaryKey, c.autoIncrement]);
  said.indexes = (await sequelize.getQueryInterface().showIndex('articles')).filter((i) => i.type === 'BTREE').map((i) => [i.name, i.unique, i.fields.map((f) => f.attribute)]).sort();
  said.keys = await sequelize.getQueryInterface().getForeignKeyReferencesForTable('articles').then((keys) => keys.map((k) => [k.columnName, k.referencedTableName, k.referencedColumnName]));
  said.tables = (await sequelize.getQueryInterface().showAllTables()).map((t) => t.tableName || t).sort();
  console.log(JSON.stringify(said, null, 1));
  await sequelize.close();
})().catch((e) => { console.error(e.sql, e); process.exit(1); });
