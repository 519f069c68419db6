<?php
// A client of PHP's gearman extension, told what to do by a test.

$spec = json_decode($argv[1], true);
$client = new GearmanClient();
$client->addServer('127.0.0.1', $spec['port']);

function say(string $event, array $facts = []): void
{
    fwrite(STDOUT, json_encode(['event' => $event] + $facts, JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
}

function suffix(array $options): string
{
    return ['' => '', 'high' => 'High', 'low' => 'Low'][$options['priority'] ?? ''];
}

function told(GearmanClient $client): void
{
    $code = $client->returnCode();
    if ($code !== GEARMAN_SUCCESS) {
        throw new Exception("$code: " . $client->error());
    }
}

$heard = [];
$client->setStatusCallback(function (GearmanTask $task) use (&$heard) {
    $heard['status'][] = [$task->taskNumerator(), $task->taskDenominator()];
});
$client->setDataCallback(function (GearmanTask $task) use (&$heard) {
    $heard['data'][] = base64_encode($task->data());
});
$client->setWarningCallback(function (GearmanTask $task) use (&$heard) {
    $heard['warnings'][] = base64_encode($task->data());
});
$created = [];
$client->setCreatedCallback(function (GearmanTask $task, $index = null) use (&$created) {
    $created[$index ?? ''] = $task->jobHandle();
});
$results = [];
$client->setCompleteCallback(function (GearmanTask $task, $index = null) use (&$heard, &$results) {
    if ($index !== null) {
        $results[$index] = ['outcome' => 'complete', 'result' => base64_encode($task->data())];
    }
    $heard['outcome'] = 'complete';
    $heard['result'] = base64_encode((string) $task->data());
});
$client->setFailCallback(function (GearmanTask $task) use (&$heard) {
    $heard['outcome'] = 'fail';
});
$client->setExceptionCallback(function (GearmanTask $task) use (&$heard) {
    $heard['outcome'] = 'exception';
    $heard['exception'] = base64_encode($task->data());
});

$verbs = [
    // The way with tasks and callbacks.
    'do' => function (string $function, string $workload, array $options) use ($client, &$heard) {
        $heard = ['status' => [], 'data' => [], 'warnings' => []];
        $add = 'addTask' . suffix($options);
        $client->$add($function, base64_decode($workload), null, $options['unique'] ?? null);
        @$client->runTasks();
        if (!isset($heard['outcome'])) {
            throw new Exception($client->returnCode() . ': ' . $client->error());
        }
        return $heard;
    },
    // All tasks are sent before the first is waited for; each result knows its task.
    'many' => function (string $function, array $workloads, array $options) use ($client, &$results) {
        $results = [];
        foreach ($workloads as $index => $workload) {
            $client->addTask($function, base64_decode($workload), $index);
        }
        $client->runTasks();
        told($client);
        ksort($results);
        return array_values($results);
    },
    // Every second one in the background, all in one run.
    'mixed' => function (string $function, array $workloads) use ($client, &$results, &$created) {
        $results = $created = [];
        foreach ($workloads as $index => $workload) {
            $add = $index % 2 ? 'addTask' : 'addTaskBackground';
            $client->$add($function, base64_decode($workload), $index);
        }
        $client->runTasks();
        told($client);
        ksort($results);
        ksort($created);
        return ['results' => array_column($results, 'result'), 'handles' => $created];
    },
    // The way that returns the result.
    'doNormal' => function (string $function, string $workload, array $options) use ($client) {
        $do = 'do' . (suffix($options) ?: 'Normal');
        $result = @$client->$do($function, base64_decode($workload), $options['unique'] ?? null);
        return ['code' => $client->returnCode(), 'result' => base64_encode((string) $result)];
    },
    'background' => function (string $function, string $workload, array $options) use ($client) {
        $do = 'do' . suffix($options) . 'Background';
        $handle = $client->$do($function, base64_decode($workload), $options['unique'] ?? null);
        told($client);
        return $handle;
    },
    'status' => function (string $handle) use ($client) {
        return array_map('intval', $client->jobStatus($handle));
    },
    'statusUnique' => function (string $unique) use ($client) {
        return array_map('intval', $client->jobStatusByUniqueKey($unique));
    },
    'ping' => function (string $workload) use ($client) {
        return $client->ping(base64_decode($workload));
    },
];

say('ready');
while (($line = fgets(STDIN)) !== false) {
    $args = json_decode($line, true);
    $number = array_shift($args);
    $verb = array_shift($args);
    try {
        say('answer', ['number' => $number, 'value' => $verbs[$verb](...$args)]);
    } catch (Throwable $error) {
        say('answer', ['number' => $number, 'error' => $error->getMessage()]);
    }
}
