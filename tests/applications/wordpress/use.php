<?php
// php use.php install|use|upgrade|remove   prints what WordPress found, as JSON; ends with 1 after a
// statement that failed: WordPress goes on after those.
$step = $argv[1];
if ($step !== 'use') {
    define('WP_INSTALLING', true);
}
$_SERVER += ['HTTP_HOST' => 'localhost', 'SERVER_NAME' => 'localhost', 'REQUEST_URI' => '/', 'REMOTE_ADDR' => '127.0.0.1'];
function wp_mail() { return true; }
require __DIR__ . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/taxonomy.php';
require_once ABSPATH . 'wp-admin/includes/user.php';
require_once ABSPATH . 'wp-admin/includes/export.php';

function installed() {
    wp_install('A blog', 'admin', 'a@example.com', true, '', 'secret');
    return [get_option('blogname'), wp_count_posts()->publish, get_user_by('login', 'admin')->ID];
}

function upgraded() {
    update_option('db_version', 40000); // of 4.9: its changes run again
    wp_upgrade();
    return [get_option('db_version'), dbDelta('all')];
}

function used() {
    $said = [];
    $user = wp_create_user('eve', 'secret', 'eve@example.com');
    update_user_meta($user, 'city', 'Zürich');
    $news = wp_create_category('News');
    for ($i = 1; $i <= 25; $i++) {
        $id = wp_insert_post([
            'post_title' => "Post $i", 'post_content' => $i % 3 ? "Some text about apples 🍎 $i" : "O'Reilly \\ pears",
            'post_status' => $i % 5 ? 'publish' : 'draft', 'post_author' => $i % 2 ? 1 : $user,
            'post_date' => sprintf('2024-%02d-%02d 10:00:00', 1 + $i % 12, $i), 'post_category' => $i % 4 ? [$news] : [],
            'tags_input' => $i % 2 ? ['red', 'green'] : ['blue'], 'meta_input' => ['price' => $i * 1.5, 'kind' => "k$i"],
        ]);
        wp_insert_comment(['comment_post_ID' => $id, 'comment_content' => "Comment $i", 'comment_author' => 'Bob', 'user_id' => $user, 'comment_approved' => $i % 2]);
    }
    $queries = [
        'page' => ['posts_per_page' => 4, 'paged' => 2],
        'search' => ['s' => 'apples', 'posts_per_page' => 3],
        'search of two words' => ['s' => "o'reilly pears", 'posts_per_page' => 3],
        'category' => ['category_name' => 'news', 'posts_per_page' => 3, 'orderby' => 'title', 'order' => 'ASC'],
        'tags' => ['tag_slug__and' => ['red', 'green'], 'posts_per_page' => 3],
        'not in' => ['tag__not_in' => [get_term_by('slug', 'blue', 'post_tag')->term_id], 'orderby' => ['author' => 'ASC', 'ID' => 'DESC']],
        'meta' => ['meta_key' => 'price', 'orderby' => 'meta_value_num', 'order' => 'DESC', 'meta_query' => [['key' => 'price', 'value' => [3, 20], 'type' => 'NUMERIC', 'compare' => 'BETWEEN']]],
        'meta decimals' => ['orderby' => 'ID', 'meta_query' => ['relation' => 'OR', ['key' => 'price', 'value' => 4.5, 'type' => 'DECIMAL(10,2)'], ['key' => 'kind', 'compare' => 'NOT EXISTS']]],
        'dates' => ['date_query' => [['after' => '2024-05-01', 'before' => '2024-08-01', 'inclusive' => true]], 'orderby' => 'date ID'],
        'weekday' => ['date_query' => [['dayofweek' => 3]], 'orderby' => 'ID'],
        'hour' => ['date_query' => [['hour' => [9, 10], 'compare' => 'BETWEEN']], 'posts_per_page' => 2, 'orderby' => 'comment_count ID'],
        'any status' => ['post_status' => 'any', 'author' => $user, 'fields' => 'ids', 'orderby' => 'modified ID'],
        'name in' => ['post_name__in' => ['post-3', 'post-7'], 'orderby' => 'post_name__in'],
    ];
    foreach ($queries as $name => $query) {
        $found = new WP_Query($query);
        $said[$name] = [$found->found_posts, $found->max_num_pages, array_map(fn($p) => is_object($p) ? $p->post_title : $p, $found->posts)];
    }
    $said['comments'] = [get_comments(['count' => true]), array_map(fn($c) => $c->comment_content, get_comments(['search' => '1', 'number' => 3, 'status' => 'approve', 'orderby' => 'comment_ID', 'no_found_rows' => false]))];
    $said['terms'] = array_map(fn($t) => [$t->name, $t->count], get_terms(['taxonomy' => ['category', 'post_tag'], 'hide_empty' => false, 'orderby' => 'count', 'order' => 'DESC']));
    $users = new WP_User_Query(['role__in' => ['administrator', 'subscriber'], 'orderby' => 'post_count', 'search' => '*e*', 'meta_key' => 'city', 'count_total' => true]);
    $said['users'] = [$users->get_total(), array_map(fn($u) => $u->user_login, $users->get_results()), count_users()['avail_roles']];
    $said['archives'] = wp_get_archives(['echo' => false, 'format' => 'custom', 'type' => 'monthly', 'show_post_count' => true]);
    $said['by day'] = wp_get_archives(['echo' => false, 'format' => 'custom', 'type' => 'weekly', 'limit' => 3]);
    global $wpdb;
    $said['next'] = [get_adjacent_post_title(true), get_adjacent_post_title(false)];
    $id = get_page_by_path('post-9', OBJECT, 'post')->ID;
    wp_update_post(['ID' => $id, 'post_title' => 'Changed', 'post_content' => str_repeat('long ', 20000)]);
    $said['revisions'] = count(wp_get_post_revisions($id));
    wp_trash_post($id);
    wp_untrash_post($id);
    set_transient('t', ['a' => 1], 60);
    $said['transient'] = [get_transient('t'), delete_transient('t'), delete_expired_transients()];
    $said['updated'] = $wpdb->update($wpdb->posts, ['menu_order' => 3], ['post_author' => $user]);
    $said['replaced'] = $wpdb->replace($wpdb->options, ['option_name' => 'blogname', 'option_value' => 'Other']);
    $said['cleaned'] = $wpdb->query("DELETE a, b FROM $wpdb->posts a LEFT JOIN $wpdb->postmeta b ON a.ID = b.post_id WHERE a.post_type = 'revision'");
    $said['deleted'] = [wp_delete_user($user, 1), wp_delete_term($news, 'category'), (bool) wp_delete_post($id, true)];
    $said['left'] = [wp_count_posts(), wp_count_comments(), $wpdb->get_results("SELECT t.slug, COUNT(*) n FROM $wpdb->terms t JOIN $wpdb->term_taxonomy x USING (term_id) LEFT JOIN $wpdb->term_relationships r ON r.term_taxonomy_id = x.term_taxonomy_id GROUP BY t.term_id ORDER BY t.slug")];
    ob_start();
    @export_wp(['content' => 'post']);
    $said['export'] = preg_match_all('/<item>/', ob_get_clean());
    return $said;
}

function get_adjacent_post_title($previous) {
    $GLOBALS['post'] = get_page_by_path('post-7', OBJECT, 'post');
    $found = get_adjacent_post(true, '', $previous);
    return $found ? $found->post_title : null;
}

function removed() {
    global $wpdb;
    return $wpdb->query('DROP TABLE ' . implode(', ', $wpdb->tables('all')));
}

$said = ['install' => 'installed', 'use' => 'used', 'upgrade' => 'upgraded', 'remove' => 'removed'][$step]();
echo json_encode($said, JSON_PRETTY_PRINT | JSON_UNESCAPED_UNICODE | JSON_PARTIAL_OUTPUT_ON_ERROR), "\n";
// The installer asks tables whether they are there.
$failed = array_filter($EZSQL_ERROR ?? [], fn($each) => $step !== 'install' || !str_contains($each['error_str'], "doesn't exist"));
if ($failed) {
    fwrite(STDERR, print_r($failed, true));
    exit(1);
}
