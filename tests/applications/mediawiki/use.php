<?php
// php use.php   edits pages and asks the API for lists, as the admin; prints what it says, as JSON,
// without times. A statement that fails is an exception.
require_once __DIR__ . '/maintenance/Maintenance.php';

class UseWiki extends Maintenance {
    private $user;

    private function ask(array $values) {
        $context = new DerivativeContext(RequestContext::getMain());
        $context->setUser($this->user);
        static $session = [];
        $request = new FauxRequest($values, true, $session);
        $salt = $values['action'] === 'userrights' ? 'userrights' : '';
        $request->setVal('token', (string) ApiQueryTokens::getToken($this->user, $request->getSession(), $salt));
        $session = $request->getSession();
        $context->setRequest($request);
        $api = new ApiMain($context, true);
        try {
            $api->execute();
        } catch (ApiUsageException $refused) {
            return ['edit' => ['result' => $refused->getMessage()], 'refused' => $refused->getMessage()];
        }
        return $api->getResult()->getResultData(null, ['Strip' => 'all']);
    }

    public function execute() {
        $this->user = User::newFromName('Admin');
        RequestContext::getMain()->setUser($this->user);
        $said = [];
        for ($i = 1; $i <= 12; $i++) {
            $text = "Zürich 🍎 page $i [[Category:C" . $i % 3 . "]] [[Page " . ($i + 1) . "]] {{T}} https://example.com/$i";
            $said['edit'][] = $this->ask(['action' => 'edit', 'title' => "Page $i", 'text' => $text, 'summary' => "made $i"])['edit']['result'] ?? 'no';
        }
        $this->ask(['action' => 'edit', 'title' => 'Template:T', 'text' => 'of all [[Main Page]]']);
        $this->ask(['action' => 'edit', 'title' => 'Page 3', 'appendtext' => "\nmore", 'tags' => '']);
        $said['move'] = $this->ask(['action' => 'move', 'from' => 'Page 4', 'to' => 'Moved', 'reason' => 'r']);
        $said['delete'] = $this->ask(['action' => 'delete', 'title' => 'Page 5', 'reason' => 'r'])['delete']['title'] ?? 'no';
        $said['undelete'] = $this->ask(['action' => 'undelete', 'title' => 'Page 5'])['undelete']['revisions'] ?? 'no';
        $said['protect'] = $this->ask(['action' => 'protect', 'title' => 'Page 6', 'protections' => 'edit=sysop', 'expiry' => 'infinite'])['protect']['title'] ?? 'no';
        $said['block'] = $this->ask(['action' => 'block', 'user' => '10.0.0.0/16', 'expiry' => 'infinite'])['block']['user'] ?? 'no';
        $said['rights'] = $this->ask(['action' => 'userrights', 'user' => 'Admin', 'add' => 'bot']);
        DeferredUpdates::doUpdates();
        MediaWiki\MediaWikiServices::getInstance()->getJobRunner()->run([]);
        $lists = ['allpages', 'allcategories', 'alllinks', 'alltransclusions', 'allusers', 'blocks', 'watchlist', 'recentchanges', 'logevents', 'usercontribs', 'categorymembers', 'backlinks', 'embeddedin', 'exturlusage', 'allrevisions', 'tags', 'protectedtitles', 'pageswithprop', 'allredirects'];
        $more = ['ucuser' => 'Admin', 'cmtitle' => 'Category:C1', 'bltitle' => 'Page 7', 'eititle' => 'Template:T', 'wlprop' => 'title', 'rcprop' => 'title|ids|flags', 'leprop' => 'title|type', 'bkprop' => 'range|flags', 'ucprop' => 'title|flags', 'arvprop' => 'ids|size|comment', 'alprop' => 'title', 'pwppropname' => 'defaultsort', 'acprop' => 'size'];
        foreach ($lists as $list) {
            $said[$list] = $this->ask(['action' => 'query', 'list' => $list] + $more)['query'] ?? 'no';
        }
        foreach (['Ancientpages', 'BrokenRedirects', 'Deadendpages', 'DoubleRedirects', 'Fewestrevisions', 'Longpages', 'Lonelypages', 'Mostcategories', 'Mostlinked', 'Mostlinkedcategories', 'Mostlinkedtemplates', 'Mostrevisions', 'Shortpages', 'Uncategorizedpages', 'Unusedcategories', 'Unwatchedpages', 'Wantedcategories', 'Wantedpages', 'Wantedtemplates', 'Withoutinterwiki'] as $page) {
            $found = $this->ask(['action' => 'query', 'list' => 'querypage', 'qppage' => $page, 'qplimit' => 50])['query']['querypage']['results'] ?? [];
            usort($found, fn($a, $b) => $a['title'] <=> $b['title']); // rows of one value come in any order
            $said[$page] = $found;
        }
        $said['props'] = $this->ask(['action' => 'query', 'titles' => 'Page 1|Page 3|Main Page', 'prop' => 'categories|links|linkshere|templates|extlinks|info|revisions', 'rvprop' => 'ids|size|comment'])['query']['pages'] ?? 'no';
        $said['statistics'] = $this->ask(['action' => 'query', 'meta' => 'siteinfo', 'siprop' => 'statistics'])['query']['statistics'] ?? [];
        unset($said['statistics']['activeusers']);
        array_walk_recursive($said, function (&$value, $key) {
            if (in_array($key, ['touched', 'timestamp', 'value', 'starttimestamp'], true) || is_float($value)) {
                $value = '';
            }
        });
        echo json_encode($said, JSON_PRETTY_PRINT | JSON_UNESCAPED_UNICODE), "\n";
    }
}

$maintClass = UseWiki::class;
require_once RUN_MAINTENANCE_IF_MAIN;
