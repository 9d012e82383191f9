# Receives a file on a machine of launch/cluster copy, and passes it on while it comes. With nothing but perl-base and coreutils.
# Arguments: the file, its bytes and mode, then the address to listen on and its first and last port; without these, the file's bytes come
# over standard input. Otherwise its first line is the token that the sender of the bytes must know, and further lines are commands; its end
# is the end of all. Standard output: a line for each thing that happens.
use strict;
use Socket;
use Fcntl qw(:flock O_RDWR O_CREAT O_NOFOLLOW);
use Errno qw(EINPROGRESS EINTR EAGAIN);
use IO::Handle;
use IPC::Open2;

my ($file, $bytes, $mode, $address, $first_port, $last_port) = @ARGV;
my ($CONNECT_S, $PIECE, $MOST_WAITING) = (3, 1 << 18, 1 << 20);
$file = "$ENV{HOME}/$file" unless $file =~ m{^/};
for (1 .. 20) { my $to = readlink $file // last; $file = $to =~ m{^/} ? $to : $file =~ s{[^/]*$}{}r . $to }
my $part = "$file.yamata-part";
my ($part_is_mine, $input, $up, $down, $kept) = (0, '');
$| = 1;
$SIG{PIPE} = 'IGNORE';
$SIG{$_} = sub { quit() } for qw(HUP INT TERM);

sub tell_head { print "@_\n" }

sub quit {
  unlink $part if $part_is_mine;
  tell_head(@_) if @_;
  exit 1;
}

# The part, which only this process writes.
sub open_part {
  sysopen(my $out, $part, O_RDWR | O_CREAT | O_NOFOLLOW, 0600) or quit("failed it cannot be written ($!)");
  flock($out, LOCK_EX | LOCK_NB) && (stat $out)[1] == ((stat $part)[1] // 0) or quit('busy');
  $part_is_mine = 1;
  truncate($out, 0) or quit("failed it cannot be written ($!)");
  return $out;
}

sub listen_here {
  my $listener;
  for my $port ($first_port .. $last_port) {
    socket($listener, PF_INET, SOCK_STREAM, 6) or quit("failed no socket ($!)");
    setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1);
    next unless bind($listener, sockaddr_in($port, inet_aton($address))) && listen($listener, 16);
    tell_head("port $port");
    return $listener;
  }
  quit("failed no port from $first_port to $last_port is free");
}

sub connect_to {
  my ($host, $port, $token) = @_;
  socket(my $made, PF_INET, SOCK_STREAM, 6);
  $made->blocking(0);
  my $done = connect($made, sockaddr_in($port, inet_aton($host)));
  if (!$done && $!{EINPROGRESS}) {
    vec(my $writes = '', fileno($made), 1) = 1;
    return tell_head('closed no answer') unless select(undef, $writes, undef, $CONNECT_S) > 0;
    $done = !($! = unpack('i', getsockopt($made, SOL_SOCKET, SO_ERROR)));
  }
  return tell_head("closed $!") unless $done;
  syswrite($made, $token);
  $down = $made;
  tell_head('linked');
}

# A line of the head. Ends the process with its input.
sub next_line {
  until ($input =~ /\n/) {
    my $got = sysread(STDIN, $input, 4096, length $input);
    quit() unless $got || !defined $got && $!{EINTR};
  }
  $input =~ s/^(.*)\n//;
  return $1;
}

sub obey {
  do {
    my ($word, @more) = split / /, next_line();
    connect_to(@more) if $word eq 'next';
    $down = undef if $word eq 'alone';
  } while $input =~ /\n/;
}

sub readable {
  my %wanted = map { fileno($_) => $_ } grep { $_ } @_;
  my $bits = '';
  vec($bits, $_, 1) = 1 for keys %wanted;
  select($bits, undef, undef, undef) > 0 or return;
  return map { $wanted{$_} } grep { vec($bits, $_, 1) } keys %wanted;
}

sub taken { accept(my $new, $_[0]); return fileno $new ? $new : undef }

# Waits for the one that knows the token; others are sent away.
sub join_sender {
  my ($listener, $token) = @_;
  my %said;
  until ($up) {
    for my $from (readable($listener, \*STDIN, map { $_->[0] } values %said)) {
      if ($from == \*STDIN) { obey(); next }
      if ($from == $listener) { $said{fileno $_} = [$_, ''] for grep { $_ } taken($listener); next }
      my $its = $said{fileno $from};
      my $got = sysread($from, $its->[1], length($token) - length $its->[1], length $its->[1]);
      next if $got && length $its->[1] < length $token;
      delete $said{fileno $from};
      $up = $from if $its->[1] eq $token;
    }
  }
  tell_head('joined');
}

sub write_all {
  my ($to, $data) = @_;
  my $at = 0;
  while ($at < length $data) { $at += syswrite($to, $data, length($data) - $at, $at) || return 0 }
  return 1;
}

# The file, to the disk, to the sum and to the next machine. A machine whose disk is full still passes it on.
sub receive {
  my ($out, $sum) = @_;
  my ($come, $told, $waiting) = (0, 0, '');
  while ($come < $bytes || length $waiting) {
    my ($reads, $writes) = ('', '');
    my $takes = $come < $bytes && length $waiting < $MOST_WAITING;
    vec($reads, fileno(STDIN), 1) = 1 if $up != \*STDIN;
    vec($reads, fileno($up), 1) = 1 if $takes;
    vec($writes, fileno($down), 1) = 1 if length $waiting;
    next unless select($reads, $writes, undef, undef) > 0;
    obey() if $up != \*STDIN && vec($reads, fileno(STDIN), 1);
    if ($takes && vec($reads, fileno($up), 1)) {
      my $most = $bytes - $come < $PIECE ? $bytes - $come : $PIECE;
      sysread($up, my $piece, $most) or quit('short');
      $come += length $piece;
      if ($out && !write_all($out, $piece)) {
        tell_head("failed it cannot be written ($!)");
        unlink $part;
        exit 1 unless $down;
        ($out, $part_is_mine) = (undef, 0);
      }
      write_all($sum, $piece) if $out;
      $waiting .= $piece if $down;
    }
    if ($down && length $waiting && vec($writes, fileno($down), 1)) {
      my $sent = syswrite($down, $waiting);
      if ($sent) { substr($waiting, 0, $sent, '') }
      elsif (!$!{EAGAIN}) { tell_head("lost $!"); $down = undef }
    }
    $waiting = '' unless $down;
    if ($come - $told > $bytes / 50) { tell_head("at $come"); $told = $come }
  }
  exit 1 unless $out;
  $out->sync && close($out) or quit("failed it cannot be written ($!)");
}

my $out = open_part();
if ($address) {
  my $token = next_line();
  my $listener = listen_here();
  join_sender($listener, $token);
  close $listener;
} else {
  $up = \*STDIN;
}
open2(my $sum_of, my $sum, 'sha256sum 2>/dev/null') or quit('failed sha256sum is missing');
receive($out, $sum);
close $down if $down;
close $sum;
tell_head('sum', (split / /, <$sum_of>)[0]);
1 until next_line() eq 'keep';
chmod(oct $mode, $part) && rename($part, $file) or quit("failed it cannot be written ($!)");
tell_head('kept');
