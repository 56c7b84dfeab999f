module.exports = {
  async up(q, S) {
    await q.createTable('users', {
      id: { type: S.INTEGER, primaryKey: true, autoIncrement: true, allowNull: false },
      email: { type: S.STRING(190), allowNull: false, unique: true },
      name: S.STRING, age: S.INTEGER.UNSIGNED, balance: { type: S.DECIMAL(12, 2), defaultValue: 0 }, active: { type: S.BOOLEAN, defaultValue: true },
      role: { type: S.ENUM('admin', 'user'), defaultValue: 'user' }, data: S.JSON, uid: S.UUID, bio: S.TEXT('medium'), blob: S.BLOB, day: S.DATEONLY, at: S.TIME, ratio: S.DOUBLE,
      createdAt: { type: S.DATE(3), allowNull: false }, updatedAt: { type: S.DATE(3), allowNull: false, defaultValue: S.literal('CURRENT_TIMESTAMP(3)') },
    });
    await q.createTable('posts', {
      id: { type: S.BIGINT, primaryKey: true, autoIncrement: true },
      userId: { type: S.INTEGER, references: { model: 'users', key: 'id' }, onDelete: 'CASCADE', onUpdate: 'CASCADE' },
      title: S.STRING(100), code: S.STRING(20),
    });
    await q.addIndex('posts', ['title', { name: 'code', length: 5, order: 'DESC' }], { name: 'posts_title_code' });
    await q.addIndex('posts', ['code'], { unique: true });
  },
  async down(q) { await q.dropTable('posts'); await q.dropTable('users'); },
};
