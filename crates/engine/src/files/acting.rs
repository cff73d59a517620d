//! Whose rights file operations have: those of the user commands run as, or of another that was named.

use coracle_core::{Error, Kind, Result, user};
use coracle_wire::Acting;

use crate::access::gate::Inside;
use crate::exec::command_user;

impl Inside {
    /// Has file operations done with the rights of a user's commands from now on; if none is named, of the user commands
    /// run as. `root` may do everything.
    pub(crate) fn act_as(&mut self, named: Option<&str>) -> Result<()> {
        let acting = command_user(&self.record, named)?;
        let overrides = named.is_some_and(|named| user::is_root(Some(named)));
        if named.is_some() && !overrides && !self.guest.knows_users() {
            return Err(Error::new(
                Kind::Unsupported,
                "this sandbox cannot act as one of its users on files",
            )
            .detail("field", "user")
            .hint("it was started by an older coracle; open a new one"));
        }
        let acting = Acting { user: acting.map(|user| user.as_bytes().to_vec()) };
        self.guest.act_for((!overrides).then_some(acting));
        Ok(())
    }
}
