# A client of Perl's Gearman::Client, told what to do by a test.
use strict;
use warnings;
use Gearman::Client;
use JSON::PP;
use MIME::Base64;
use Storable;

$| = 1;
my $spec   = decode_json($ARGV[0]);
my %server = (host => "127.0.0.1", port => $spec->{port});
if (my $tls = $spec->{tls}) {
    %server = (%server, use_ssl => 1, map { ("${_}_file" => $tls->{$_}) } qw(ca cert key));
}
my $client = Gearman::Client->new(
    job_servers => [\%server],
    exceptions  => 1,
    prefix      => $spec->{prefix},
);

sub b64 { encode_base64($_[0], "") }

sub options {
    my %options = %{ $_[0] };
    my %task;
    $task{uniq}     = $options{unique}   if defined $options{unique};
    $task{priority} = $options{priority} if defined $options{priority};
    return %task;
}

# Exceptions of its own workers are frozen by Storable; those of others are what they are.
sub thawed {
    my $thawed = eval { Storable::thaw($_[0]) };
    return ref $thawed eq "SCALAR" ? $$thawed : $_[0];
}

my %verbs = (
    do => sub {
        my ($function, $workload, $options) = @_;
        my (@status, @data, @warnings, $exception);
        my $payload = decode_base64($workload);
        my $result  = $client->do_task(
            $function,
            \$payload,
            {
                options($options),
                on_status    => sub { push @status,   [map { $_ + 0 } @_] },
                on_data      => sub { push @data,     b64(${ $_[0] }) },
                on_warning   => sub { push @warnings, b64(${ $_[0] }) },
                on_exception => sub { $exception = thawed($_[0]) },
            }
        );
        my %heard = (status => \@status, data => \@data, warnings => \@warnings);
        return { outcome => "complete", result => b64($$result), %heard } if defined $result;
        return { outcome => "exception", exception => b64($exception), %heard }
            if defined $exception;
        return { outcome => "fail", %heard };
    },
    many => sub {
        my ($function, $workloads, $options) = @_;
        my $tasks = $client->new_task_set;
        my @results;
        for my $index (0 .. $#$workloads) {
            my $payload = decode_base64($workloads->[$index]);
            $tasks->add_task(
                $function,
                \$payload,
                {
                    on_complete => sub {
                        $results[$index] = { outcome => "complete", result => b64(${ $_[0] }) };
                    }
                }
            );
        }
        $tasks->wait;
        return \@results;
    },
    background => sub {
        my ($function, $workload, $options) = @_;
        my $payload = decode_base64($workload);
        return $client->dispatch_background($function, \$payload, { options($options) });
    },
    status => sub {
        my $found = $client->get_status($_[0]) or die "no status\n";
        my $progress = $found->progress || [0, 0];
        return [map { $_ + 0 } $found->known, $found->running, @$progress];
    },
    admin => sub {
        my ($name) = @_;
        my $found = $client->$name();
        return (values %$found)[0];
    },
);

syswrite STDOUT, "{\"event\":\"ready\"}\n";
while (my $line = <STDIN>) {
    my ($number, $verb, @args) = @{ decode_json($line) };
    my $value  = eval { $verbs{$verb}->(@args) };
    my $answer = $@ ? { error => "$@" } : { value => $value };
    syswrite STDOUT, encode_json({ event => "answer", number => $number, %$answer }) . "\n";
}
