/* responder - the least that a UDP DNS server can do, as the yardstick of the load bench.
 *
 * Blocking recvmmsg and sendmmsg of up to 64 datagrams on one socket of 127.0.0.1; each reply is the query with QR
 * set and one A record (owner by pointer to the question) appended. No parsing, no look-up, no packet info.
 *
 *   cc -O2 -o responder responder.c && ./responder PORT
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BATCH 64
#define ROOM 2048

static unsigned char buffers[BATCH][ROOM];
static struct sockaddr_storage peers[BATCH];
static struct iovec vectors[BATCH];
static struct mmsghdr messages[BATCH];

/* Turns the query of `len` octets into a reply; returns its length, 0 for no reply. */
static size_t answer(unsigned char *octets, size_t len) {
    static const unsigned char record[16] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4, 192, 0, 2, 1};
    if (len < 17 || len + sizeof record > ROOM || (octets[2] & 0x80)) return 0;
    octets[2] |= 0x80;
    octets[7] = 1;
    memcpy(octets + len, record, sizeof record);
    return len + sizeof record;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int room = 4 << 20, one = 1;
    if (argc != 2) return fprintf(stderr, "usage: responder PORT\n"), 2;
    address.sin_port = htons((unsigned short)atoi(argv[1]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (bind(fd, (struct sockaddr *)&address, sizeof address)) return perror("bind"), 1;
    for (;;) {
        for (int i = 0; i < BATCH; i++) {
            vectors[i] = (struct iovec){buffers[i], ROOM};
            messages[i].msg_hdr = (struct msghdr){&peers[i], sizeof peers[i], &vectors[i], 1, 0, 0, 0};
        }
        int count = recvmmsg(fd, messages, BATCH, MSG_WAITFORONE, 0), kept = 0;
        if (count < 0) continue;
        for (int i = 0; i < count; i++) {
            size_t len = answer(buffers[i], messages[i].msg_len);
            if (!len) continue;
            vectors[i].iov_len = len;
            messages[kept++].msg_hdr = messages[i].msg_hdr;
        }
        for (int sent = 0; sent < kept;) {
            int done = sendmmsg(fd, messages + sent, kept - sent, 0);
            sent += done > 0 ? done : 1;
        }
    }
}
