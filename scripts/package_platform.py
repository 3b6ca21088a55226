"""Reads from a program's own bytes where it runs: the platform tag of its wheel, and what npm calls the platform.

ELF (Linux), Mach-O (macOS) and PE (Windows) files of 64 bits are known.
"""

import dataclasses
import re
import struct

# Per ELF machine: its name in wheels and in npm, and the oldest glibc that packages name for it.
LINUX = {0x3E: ("x86_64", "x64", (2, 17)), 0xB7: ("aarch64", "arm64", (2, 17)), 0xF3: ("riscv64", "riscv64", (2, 31))}
MACOS = {0x01000007: ("x86_64", "x64"), 0x0100000C: ("arm64", "arm64")}
WINDOWS = {0x8664: ("win_amd64", "x64"), 0xAA64: ("win_arm64", "arm64")}

# What every system with glibc has, as PEP 600 lists it, as far as this program could want it.
EVERYWHERE = re.compile(r"(ld-linux[\w-]*|libc|libm|libdl|librt|libpthread|libgcc_s)\.so\.\d+")
# Version names of glibc that are not numbers, and the first version that has them.
NAMED = {"GLIBC_ABI_DT_RELR": (2, 36)}

DYNAMIC, INTERPRETER = 2, 3  # types of ELF segments
NEEDED, STRINGS, VERSIONS, VERSION_COUNT = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF  # tags of the dynamic section


class UnknownProgram(Exception):
    """The file is no program that can be packaged."""


@dataclasses.dataclass(frozen=True)
class Platform:
    """The platform of one program."""

    wheel: str  # The platform tag of the wheel, or several joined by dots.
    os: str  # As npm and Node name it.
    cpu: str
    libc: str | None  # As npm names it; None if the program brings its own.
    program: str = "chorus"

    @property
    def npm(self):
        return f"{self.os}-{self.cpu}"


class Elf:
    """A 64-bit little-endian ELF file."""

    def __init__(self, data):
        if data[4:6] != b"\x02\x01":
            raise UnknownProgram("only little-endian programs of 64 bits are packaged")
        self.data = data
        self.machine, = struct.unpack_from("<H", data, 18)
        begin, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        # Type, flags, offset, address, physical address, size in the file.
        self.segments = [struct.unpack_from("<IIQQQQ", data, begin + n * size) for n in range(count)]
        self.dynamic = list(self.read_dynamic())

    def segment(self, kind):
        return next((segment for segment in self.segments if segment[0] == kind), None)

    def read_dynamic(self):
        if segment := self.segment(DYNAMIC):
            for at in range(segment[2], segment[2] + segment[5], 16):
                tag, value = struct.unpack_from("<QQ", self.data, at)
                if tag == 0:
                    return
                yield tag, value

    def offset(self, address):
        for kind, _, offset, start, _, size in self.segments:
            if kind == 1 and start <= address < start + size:
                return offset + address - start
        raise UnknownProgram("the file is damaged")

    def text(self, at):
        begin = self.offset(dict(self.dynamic)[STRINGS]) + at
        return self.data[begin:self.data.index(b"\0", begin)].decode()

    def interpreter(self):
        segment = self.segment(INTERPRETER)
        return segment and self.data[segment[2]:segment[2] + segment[5] - 1].decode()

    def needed(self):
        """Returns the names of the libraries that are loaded with the program."""
        return [self.text(value) for tag, value in self.dynamic if tag == NEEDED]

    def versions(self):
        """Yields the versions that the program wants of its libraries, such as `GLIBC_2.34`."""
        values = dict(self.dynamic)
        if VERSIONS not in values:
            return
        at = self.offset(values[VERSIONS])
        for _ in range(values[VERSION_COUNT]):
            _, count, _, first, following = struct.unpack_from("<HHIII", self.data, at)
            one = at + first
            for _ in range(count):
                _, _, _, name, other = struct.unpack_from("<IHHII", self.data, one)
                yield self.text(name)
                one += other
            at += following

    def glibc(self):
        """Returns the oldest glibc that has everything the program wants of it."""
        found = []
        for version in self.versions():
            if match := re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version):
                found.append((int(match[1]), int(match[2])))
            elif version in NAMED:
                found.append(NAMED[version])
            elif version.startswith("GLIBC_"):
                raise UnknownProgram(f"the program wants {version}, which only one build of glibc has")
        return max(found, default=(2, 0))


def linux(data):
    elf = Elf(data)
    if elf.machine not in LINUX:
        raise UnknownProgram(f"ELF machine {elf.machine:#x} is not packaged")
    name, cpu, oldest = LINUX[elf.machine]
    interpreter, needed = elf.interpreter(), elf.needed()
    if interpreter is None and not needed:
        major, minor = oldest
        return Platform(f"manylinux_{major}_{minor}_{name}.musllinux_1_1_{name}", "linux", cpu, None)
    if interpreter is None:
        raise UnknownProgram("this is a library, not a program")
    if "musl" in interpreter:
        # The file does not tell the version of musl.
        return Platform(f"linux_{name}", "linux", cpu, "musl")
    if not all(EVERYWHERE.fullmatch(library) for library in needed):
        return Platform(f"linux_{name}", "linux", cpu, "glibc")
    major, minor = max(elf.glibc(), oldest)
    return Platform(f"manylinux_{major}_{minor}_{name}", "linux", cpu, "glibc")


def macos(data):
    cpu_type, = struct.unpack_from("<I", data, 4)
    if cpu_type not in MACOS:
        raise UnknownProgram(f"Mach-O machine {cpu_type:#x} is not packaged")
    name, cpu = MACOS[cpu_type]
    commands, = struct.unpack_from("<I", data, 16)
    at = 32
    for _ in range(commands):
        command, size = struct.unpack_from("<II", data, at)
        if command in (0x24, 0x32):  # The oldest macOS: LC_VERSION_MIN_MACOSX, LC_BUILD_VERSION.
            version, = struct.unpack_from("<I", data, at + (8 if command == 0x24 else 12))
            major, minor = version >> 16, version >> 8 & 0xFF
            # From 11 on, wheels name the major version only.
            return Platform(f"macosx_{major}_{minor if major < 11 else 0}_{name}", "darwin", cpu, None)
        at += size
    raise UnknownProgram("the program does not say which macOS it needs")


def windows(data):
    begin, = struct.unpack_from("<I", data, 0x3C)
    machine, = struct.unpack_from("<H", data, begin + 4)
    if data[begin:begin + 4] != b"PE\0\0" or machine not in WINDOWS:
        raise UnknownProgram("only Windows programs of 64 bits are packaged")
    wheel, cpu = WINDOWS[machine]
    return Platform(wheel, "win32", cpu, None, "chorus.exe")


READERS = {b"\x7fELF": linux, b"\xcf\xfa\xed\xfe": macos, b"MZ": windows}


def read(data):
    """Returns the platform of a program, given its bytes."""
    for magic, reader in READERS.items():
        if data.startswith(magic):
            try:
                return reader(data)
            except (struct.error, KeyError, ValueError, IndexError) as error:
                raise UnknownProgram("the file is damaged") from error
    raise UnknownProgram("this is no program of Linux, macOS or Windows")
