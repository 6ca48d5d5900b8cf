//! Simulates the firmware of a switch, which carries out or refuses each command.

use zerocopy::FromZeros;

use super::*;

/// The reply to a command, or the refusal of it.
type Answer = Result<Vec<u8>, Refusal>;

const INVALID_SUBCOMMAND: Refusal = Refusal(0x64004);
const INVALID_COMMAND: Refusal = Refusal(0x64005);
const INVALID_PARAMETER: Refusal = Refusal(0x64006);
const BAD_STATE: Refusal = Refusal(0x64007);

const REPLY_OF_NONE: Answer = Ok(Vec::new());

fn parse<T: FromBytes>(request: &[u8]) -> Result<T, Refusal> {
    T::read_from_bytes(request).map_err(|_| INVALID_PARAMETER)
}

impl State {
    pub(super) fn answer(&mut self, pax: u8, word: u32, request: &[u8]) -> io::Result<Answer> {
        let known = [
            Command::LinkStatus,
            Command::PaxId,
            Command::Dump,
            Command::Bind,
            Command::Register,
            Command::Tunnel,
            Command::NvmeAdmin,
        ];
        let Some(command) = known.into_iter().find(|command| command.word() == word) else {
            return Ok(Err(INVALID_COMMAND));
        };
        self.said.push((pax, command));
        Ok(match command {
            Command::LinkStatus => self.link_status(pax, request),
            Command::PaxId => Ok(vec![pax, 0, 0, 0]),
            Command::Dump => self.dump(pax, request),
            Command::Bind => self.bind(pax, request),
            Command::Register => self.register(pax, request),
            Command::Tunnel => self.tunnel(pax, request),
            Command::NvmeAdmin => return self.nvme_admin(pax, request),
        })
    }

    fn link_status(&self, pax: u8, request: &[u8]) -> Answer {
        parse::<LinkStatusRequest>(request)?;
        let mut reply = LinkStatusReply::new_zeroed();
        reply.as_mut_bytes().fill(0xff);
        for (entry, (port, end, lanes)) in reply.0.iter_mut().zip(ports(pax)) {
            let is_empty = matches!(end, storage::observed::LinkEnd::Drive { .. })
                && !self.drives.contains_key(&port);
            let usual = if is_empty { (0x0100, 0, 0) } else { (0x0203, lanes, 4) };
            let (ltssm, width, generation) = self.links.get(&port).copied().unwrap_or(usual);
            *entry = LinkEntry::new_zeroed();
            (entry.port, entry.stack) = (port.port, ((port.port / 8) << 4) | (port.port % 8));
            (entry.configured_width, entry.negotiated_width) = (lanes, width);
            entry.rate = u8::from(ltssm & 0xff == 3) << 7 | generation;
            entry.ltssm = ltssm.into();
        }
        Ok(reply.as_bytes().to_vec())
    }

    fn dump(&mut self, pax: u8, request: &[u8]) -> Answer {
        let (head, rest) = DumpRequest::read_from_prefix(request).map_err(|_| INVALID_PARAMETER)?;
        if head.subcommand != DUMP_ENDPOINT_PORT {
            return Err(INVALID_SUBCOMMAND);
        }
        match head.part.get() {
            DUMP_START => {
                let bytes = self.described(Port { pax, port: head.port });
                let mut started = DumpStarted::new_zeroed();
                started.dwords = u32::try_from(bytes.len() / 4).unwrap().into();
                self.dumps.insert(pax, bytes);
                Ok(started.as_bytes().to_vec())
            }
            DUMP_GET => {
                let bytes = self.dumps.get(&pax).ok_or(BAD_STATE)?;
                let at = u32::read_from_bytes(rest).map_err(|_| INVALID_PARAMETER)?;
                let left = bytes.get(usize::try_from(at).unwrap() * 4..);
                let left = left.ok_or(INVALID_PARAMETER)?;
                let sent = &left[..left.len().min((DUMP_MOST - DUMP_HEAD) * 4)];
                let mut piece = DumpPiece::new_zeroed();
                piece.offset = at.into();
                piece.dwords = u32::try_from(sent.len() / 4 + DUMP_HEAD).unwrap().into();
                piece.data[..sent.len()].copy_from_slice(sent);
                Ok(piece.as_bytes().to_vec())
            }
            DUMP_FINISH => self.dumps.remove(&pax).map(|_| Vec::new()).ok_or(BAD_STATE),
            _ => Err(INVALID_PARAMETER),
        }
    }

    fn described(&self, port: Port) -> Vec<u8> {
        let mut at = PortHead::new_zeroed();
        at.port = port.port;
        let Some(drive) = self.drives.get(&port) else {
            at.kind = PORT_IS_EMPTY;
            return [SectionHead::new_zeroed().as_bytes(), at.as_bytes()].concat();
        };
        let mut entries = vec![entry(0, 3, &Function { pdfid: drive.physical, bound: None })];
        entries.extend(
            (1..).zip(drive.functions()).map(|(number, function)| entry(number, 0, &function)),
        );
        let mut attachment = AttachmentHead::new_zeroed();
        attachment.functions = u16::try_from(entries.len()).unwrap().into();
        let dwords = u16::try_from(2 + entries.len() * 9).unwrap().to_le_bytes();
        attachment.dwords[..2].copy_from_slice(&dwords);
        let section = SectionHead::new_zeroed();
        let heads = [section.as_bytes(), at.as_bytes(), attachment.as_bytes()].concat();
        [heads, entries.as_bytes().to_vec()].concat()
    }

    /// Binds a function to a port of the host's switch. Refuses a function that is already bound, and a logical port
    /// that already has a function.
    fn bind(&mut self, pax: u8, request: &[u8]) -> Answer {
        if request.first() == Some(&UNBIND) {
            let unbind: UnbindRequest = parse(request)?;
            let bound =
                self.drives.values_mut().find_map(|drive| drive.bound.remove(&unbind.pdfid.get()));
            return bound.map(|_| vec![0; 4]).ok_or(INVALID_PARAMETER);
        }
        let bind: BindRequest = parse(request)?;
        let pdfid = bind.functions[0].pdfid.get();
        let host = Port { pax: bind.pax, port: bind.port };
        let seat = Seat { host, logical: bind.logical };
        let is_taken =
            self.drives.values().any(|drive| drive.bound.values().any(|bound| *bound == seat));
        if bind.pax != pax || host_at(host).is_none() || is_taken {
            return Err(INVALID_PARAMETER);
        }
        let owner =
            self.drives.values_mut().find(|drive| drive.number(pdfid).is_some_and(|n| n > 0));
        let owner = owner.filter(|drive| !drive.bound.contains_key(&pdfid));
        owner.ok_or(INVALID_PARAMETER)?.bound.insert(pdfid, seat);
        Ok(vec![0; 4])
    }

    /// Reads and writes a configuration space with two capabilities; the second is PCI Express.
    fn register(&mut self, pax: u8, request: &[u8]) -> Answer {
        let (head, data) =
            RegisterRequest::read_from_prefix(request).map_err(|_| INVALID_PARAMETER)?;
        let pdfid = head.pdfid.get();
        let owner = self.behind(pax).find(|drive| drive.number(pdfid).is_some());
        let owner = owner.ok_or(INVALID_PARAMETER)?;
        match (head.subcommand, head.address.get()) {
            (REGISTER_READ, 0x34) => Ok(vec![0x40, 0, 0, 0]),
            (REGISTER_READ, 0x40) => Ok(vec![0x01, 0x50, 0, 0]),
            (REGISTER_READ, 0x50) => Ok(vec![0x10, 0, 0, 0]),
            (REGISTER_READ, 0x58) => Ok(vec![0x10, 0x28, 0, 0]),
            (REGISTER_WRITE, 0x58) if data == [0x10, 0xa8, 0, 0] => {
                owner.resets.push(pdfid);
                let number = pdfid - owner.physical;
                if let Some(down) = owner.simulated.state().down.get_mut(&number) {
                    down.stuck = false;
                }
                REPLY_OF_NONE
            }
            _ => Err(INVALID_PARAMETER),
        }
    }

    fn tunnel(&mut self, pax: u8, request: &[u8]) -> Answer {
        let wanted: TunnelRequest = parse(request)?;
        let owner = self.behind(pax).find(|drive| drive.physical == wanted.pdfid.get());
        let tunnel = &mut owner.ok_or(INVALID_PARAMETER)?.tunnel;
        match wanted.subcommand.get() {
            TUNNEL_ENABLE => {
                if let Opens::After(looks) = *tunnel {
                    *tunnel = Opens::Opening(looks);
                }
                Ok(vec![0; 4])
            }
            TUNNEL_DISABLE => {
                *tunnel = Opens::After(0);
                Ok(vec![0; 4])
            }
            TUNNEL_STATUS => {
                match *tunnel {
                    Opens::Opening(0) => *tunnel = Opens::Open,
                    Opens::Opening(looks) => *tunnel = Opens::Opening(looks - 1),
                    Opens::Open | Opens::After(_) | Opens::Never => {}
                }
                Ok(vec![4, 0, 0, 0, u8::from(*tunnel == Opens::Open), 0, 0, 0])
            }
            _ => Err(INVALID_SUBCOMMAND),
        }
    }

    fn nvme_admin(&mut self, pax: u8, request: &[u8]) -> io::Result<Answer> {
        match request.first() {
            Some(&PASS_START) => match parse::<PassStart>(request) {
                Ok(piece) => self.pass_start(pax, &piece),
                Err(refusal) => Ok(Err(refusal)),
            },
            Some(&PASS_DATA) => Ok(self.pass_data(pax, request)),
            Some(&PASS_END) => Ok(parse::<PassNext>(request).and_then(|next| {
                let ended = self.passes.remove(&(pax, next.pdfid.get()));
                ended.map(|_| Vec::new()).ok_or(BAD_STATE)
            })),
            _ => Ok(Err(INVALID_SUBCOMMAND)),
        }
    }

    /// Takes the pieces of a command in order, but only through an open tunnel; after the last piece, the
    /// drive executes the command.
    fn pass_start(&mut self, pax: u8, piece: &PassStart) -> io::Result<Answer> {
        let pdfid = piece.pdfid.get();
        let owner = self.behind(pax).find(|drive| drive.physical == pdfid);
        let Some((drive, Opens::Open)) = owner.map(|drive| (drive.simulated.clone(), drive.tunnel))
        else {
            return Ok(Err(BAD_STATE));
        };
        let pass = self.passes.entry((pax, pdfid)).or_default();
        let bytes = piece.data.get(..usize::from(piece.length.get()));
        let (Some(bytes), true) = (bytes, usize::from(piece.offset.get()) == pass.sent.len())
        else {
            return Ok(Err(INVALID_PARAMETER));
        };
        pass.sent.extend_from_slice(bytes);
        if pass.sent.len() > PASS_MOST || pass.answer.is_some() {
            return Ok(Err(INVALID_PARAMETER));
        }
        if piece.more != 0 {
            return Ok(REPLY_OF_NONE);
        }
        let answer = carried_out(&drive, &pass.sent, piece.expected.get().into())?;
        let length = u16::try_from(answer.len()).unwrap();
        pass.answer = Some(answer);
        Ok(Ok([length.to_le_bytes(), [0; 2]].concat()))
    }

    fn pass_data(&self, pax: u8, request: &[u8]) -> Answer {
        let next: PassNext = parse(request)?;
        let pass = self.passes.get(&(pax, next.pdfid.get()));
        let answer = pass.and_then(|pass| pass.answer.as_ref()).ok_or(BAD_STATE)?;
        let left = answer.get(usize::from(next.offset.get())..);
        let left = left.ok_or(INVALID_PARAMETER)?;
        let sent = &left[..left.len().min(PASS_ANSWER)];
        let mut piece = PassPiece::new_zeroed();
        piece.offset = next.offset;
        piece.length = u16::try_from(sent.len()).unwrap().into();
        piece.data[..sent.len()].copy_from_slice(sent);
        Ok(piece.as_bytes().to_vec())
    }

    fn behind(&mut self, pax: u8) -> impl Iterator<Item = &mut Drive> {
        self.drives.iter_mut().filter(move |(port, _)| port.pax == pax).map(|(_, drive)| drive)
    }
}

fn entry(number: u16, kind: u8, function: &Function) -> FunctionEntry {
    let mut entry = FunctionEntry::new_zeroed();
    entry.number = number.into();
    entry.pdfid = function.pdfid.into();
    entry.kind = kind;
    entry.virtual_number = u8::try_from(number).unwrap();
    entry.class = CLASS_NVME;
    if let Some(Seat { host, logical }) = function.bound {
        entry.bound = 1;
        (entry.bound_pax, entry.bound_port, entry.bound_logical) = (host.pax, host.port, logical);
    }
    entry
}

/// Returns the drive's answer to the sent bytes: a completion, and after it the data, if any.
fn carried_out(drive: &Simulated, sent: &[u8], expected: usize) -> io::Result<Vec<u8>> {
    let (submission, rest) = Submission::read_from_prefix(sent).unwrap();
    let command = admin::Command {
        opcode: submission.opcode,
        nsid: submission.nsid.get(),
        cdw10: submission.cdw10.get(),
        cdw11: submission.cdw11.get(),
        timeout: Duration::ZERO,
    };
    let to_drive = submission.opcode & 1 != 0;
    let mut data = rest.to_vec();
    if !to_drive {
        data = vec![0; expected - size_of::<Completion>()];
    }
    let mut completion = Completion::new_zeroed();
    match drive.answer(command, &mut data)? {
        Ok(result) => completion.result = result.into(),
        // The phase bit is set, as it is in a completion queue.
        Err(status) => completion.status = (status << 1 | 1).into(),
    }
    let data = if to_drive { &[][..] } else { &data };
    Ok([completion.as_bytes(), data].concat())
}
