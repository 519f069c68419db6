# A worker of Perl's Gearman::Worker. Dying is its way to raise: WORK_EXCEPTION, then WORK_FAIL.
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use Gearman::Worker;
use JSON::PP;

$| = 1;
my $spec   = decode_json($ARGV[0]);
my %server = (host => "127.0.0.1", port => $spec->{port});
if (my $tls = $spec->{tls}) {
    %server = (%server, use_ssl => 1, map { ("${_}_file" => $tls->{$_}) } qw(ca cert key));
}
my $worker = Gearman::Worker->new(
    job_servers => [\%server],
    client_id   => $spec->{id},
    prefix      => $spec->{prefix},
);

sub say_event {
    my ($event, %facts) = @_;
    syswrite STDOUT, encode_json({ event => $event, %facts }) . "\n";
}

sub work {
    my ($job, $function, $does) = @_;
    if ($does eq "wait") {
        say_event("started", function => $function, path => $job->arg);
        select(undef, undef, undef, 0.02) until -e $job->arg;
    }
    say_event(
        "ran",
        function => $function,
        digest   => sha256_hex($job->arg),
        handle   => $job->handle
    );
    return undef if $does eq "fail";
    die "boom\n" if $does eq "raise";
    return ""    if $does eq "empty";
    if ($does eq "progress") {
        $job->set_status(1, 4);
        $worker->send_work_data($job, "part");
        $worker->send_work_warning($job, "careful");
        $job->set_status(3, 4);
        return "whole";
    }
    return scalar reverse $job->arg;
}

for my $function (sort keys %{ $spec->{functions} }) {
    my $does = $spec->{functions}{$function};
    my @timeout = $spec->{timeout} ? ($spec->{timeout}) : ();
    $worker->register_function($function, @timeout, sub { work($_[0], $function, $does) });
}
say_event("ready");
$worker->work;
