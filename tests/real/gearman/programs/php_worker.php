<?php
// A worker of PHP's gearman extension.

$spec = json_decode($argv[1], true);

function say(string $event, array $facts = []): void
{
    fwrite(STDOUT, json_encode(['event' => $event] + $facts, JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
}

function work(GearmanJob $job, string $does): ?string
{
    $workload = $job->workload();
    if ($does === 'wait') {
        say('started', ['function' => $job->functionName(), 'path' => $workload]);
        while (!file_exists($workload)) {
            clearstatcache();
            usleep(20000);
        }
    }
    say('ran', [
        'function' => $job->functionName(),
        'digest' => hash('sha256', $workload),
        'handle' => $job->handle(),
        'unique' => $job->unique(),
    ]);
    switch ($does) {
        case 'fail':
            $job->sendFail();
            return null;
        case 'raise':
            $job->sendException('boom');
            return null;
        case 'empty':
            return '';
        case 'progress':
            $job->sendStatus(1, 4);
            $job->sendData('part');
            $job->sendWarning('careful');
            $job->sendStatus(3, 4);
            return 'whole';
        default:
            return strrev($workload);
    }
}

$worker = new GearmanWorker();
$worker->addServer('127.0.0.1', $spec['port']);
$worker->setId($spec['id']);
foreach ($spec['functions'] as $function => $does) {
    $worker->addFunction(
        $function,
        fn (GearmanJob $job) => work($job, $does),
        null,
        $spec['timeout'] ?? 0
    );
}
say('ready');
while (true) {
    @$worker->work();
}
