module.exports = { development: { username: 'root', password: null, database: process.env.APP_DATABASE, host: '127.0.0.1', port: process.env.APP_PORT, dialect: 'mysql', logging: false } };
