module.exports = {
  async up(q, S) {
    await q.addColumn('users', 'phone', { type: S.STRING(30), allowNull: true, after: 'email', comment: "a user's phone" });
    await q.addColumn('posts', 'slug', { type: S.STRING(60), unique: true });
    await q.changeColumn('users', 'name', { type: S.STRING(100), allowNull: false, defaultValue: 'x' });
    await q.changeColumn('users', 'age', { type: S.BIGINT, unique: true });
    await q.changeColumn('users', 'role', { type: S.ENUM('user', 'admin', 'root'), defaultValue: 'user' });
    await q.renameColumn('posts', 'title', 'headline');
    await q.addConstraint('users', { fields: ['phone', 'name'], type: 'unique', name: 'users_phone_name' });
    await q.addConstraint('users', { fields: ['balance'], type: 'check', where: { balance: { [S.Op.gte]: 0 } }, name: 'users_balance' });
    await q.changeColumn('posts', 'userId', { type: S.INTEGER, allowNull: true, references: { model: 'users', key: 'id' }, onDelete: 'SET NULL' });
    await q.removeIndex('posts', 'posts_title_code');
    await q.renameTable('posts', 'articles');
    await q.sequelize.query('ALTER TABLE articles ADD FULLTEXT INDEX articles_text (headline)');
  },
  async down(q, S) {
    await q.sequelize.query('ALTER TABLE articles DROP INDEX articles_text');
    await q.renameTable('articles', 'posts');
    await q.addIndex('posts', ['headline', 'code'], { name: 'posts_title_code' });
    await q.sequelize.query('ALTER TABLE users DROP CONSTRAINT users_balance');
    await q.removeConstraint('users', 'users_phone_name');
    await q.renameColumn('posts', 'headline', 'title');
    await q.changeColumn('users', 'age', { type: S.INTEGER.UNSIGNED });
    await q.removeIndex('users', 'age');
    await q.removeColumn('posts', 'slug');
    await q.removeColumn('users', 'phone');
  },
};
